{#- The texts that stand for `infinity` and `-infinity` in a date or a timestamp, as SQL literals. No value of a message
    has a plus before a year of four digits. Python, and so PySpark and dbt, can show these timestamps in every time
    zone; it cannot show earlier ones than the first. -#}
{%- macro _debezium_bounds(column) -%}
    {{ return(
        ["'+9999-12-31'", "'+0001-01-01'"] if column.type == 'date'
        else ["'+9999-12-31 00:00:00Z'", "'+0001-01-03 00:00:00Z'"]
    ) }}
{%- endmacro -%}
