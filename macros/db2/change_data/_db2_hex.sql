{#- A log sequence number as hex digits in upper case, from bytes or from text that holds them. -#}
{%- macro _db2_hex(column) -%}
    {%- set name = afterimage._quote(column.name) -%}
    {{ return(
        'hex(' ~ name ~ ')' if column.type == 'binary'
        else "upper(regexp_replace(trim(cast(" ~ name ~ " as string)), '^0[xX]', ''))"
    ) }}
{%- endmacro -%}
