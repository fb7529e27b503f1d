{#- The inverse of `_as_property`; none for any other text. -#}
{%- macro _from_property(value) -%}
    {%- if value is none or not modules.re.fullmatch('([0-9a-f]{2})+', value) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(''.encode('utf-8').fromhex(value).decode('utf-8')) }}
{%- endmacro -%}
