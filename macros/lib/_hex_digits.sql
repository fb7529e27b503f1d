{#- Bytes as hex digits in upper case; as landed, or from text that holds the digits, with 0x before them or colons
    between. -#}
{%- macro _hex_digits(column) -%}
    {%- set name = afterimage._quote(column.name) -%}
    {{ return(
        'hex(' ~ name ~ ')' if column.type == 'binary'
        else "upper(regexp_replace(trim(cast(" ~ name ~ " as string)), '^0[xX]|:', ''))"
    ) }}
{%- endmacro -%}
