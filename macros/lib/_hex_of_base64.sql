{#- The bytes in a Base64 text as hex digits; NULL for any other text. Spark itself takes texts without padding. -#}
{%- macro _hex_of_base64(text) -%}
    {%- set is_base64 = text ~ " rlike '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$'" -%}
    {{ return('hex(try_to_binary(if(' ~ is_base64 ~ ', ' ~ text ~ ", null), 'base64'))") }}
{%- endmacro -%}
