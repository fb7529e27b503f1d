{#- The MD5 of a key, a struct. JSON has U+FFFD for all bytes that are no UTF-8, so a hash keeps such keys apart. -#}
{%- macro _key_hash(key) -%}
    {%- set json = afterimage._exact_json(key) -%}
    {{ return('md5(concat(' ~ json ~ ', if(contains(' ~ json ~ ", '\\uFFFD'), cast(xxhash64(" ~ key ~ ") as string), '')))") }}
{%- endmacro -%}
