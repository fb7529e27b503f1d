{#- The MD5 of a key, a struct. JSON has U+FFFD for all bytes that are no UTF-8, so a hash keeps such keys apart. -#}
{%- macro _key_hash(key) -%}
    {%- set json = afterimage._exact_json(key) -%}
    {%- set garbled = 'contains(' ~ json ~ ", '\\uFFFD')" -%}
    {{ return('md5(concat(' ~ json ~ ', if(' ~ garbled ~ ', cast(xxhash64(' ~ key ~ ") as string), '')))") }}
{%- endmacro -%}
