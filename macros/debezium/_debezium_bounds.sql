{#- The texts that stand for `infinity` and `-infinity` in a date or a timestamp, as SQL literals. No value of a message
    has a sign before a year of four digits. -#}
{%- macro _debezium_bounds(column) -%}
    {{ return(
        ["'+9999-12-31'", "'+0001-01-01'"] if column.type == 'date'
        else ["'+9999-12-31 23:59:59.999999Z'", "'+0001-01-01 00:00:00Z'"]
    ) }}
{%- endmacro -%}
