{#- A log sequence number as upper-case hex digits, from bytes or from a text of hex digits. -#}
{%- macro _db2_hex(column) -%}
    {%- set name = afterimage._quote(column.name) -%}
    {{ return(
        'hex(' ~ name ~ ')' if column.type == 'binary'
        else "upper(regexp_replace(trim(cast(" ~ name ~ " as string)), '^0[xX]', ''))"
    ) }}
{%- endmacro -%}
