{#- A time, also in Db2's own form: `2024-01-31-08.00.00.000000`, with up to 12 digits after the point. -#}
{%- macro _db2_time(column) -%}
    {%- set name = afterimage._quote(column.name) -%}
    {%- if column.type != 'string' -%}
        {{ return(afterimage._landed_time(name, column.type)) }}
    {%- endif -%}
    {{ return(afterimage._landed_time(
        "regexp_replace(trim(" ~ name ~ "), '^([0-9]{4}-[0-9]{2}-[0-9]{2})-([0-9]{2})[.]([0-9]{2})[.]([0-9]{2})"
        ~ "([.][0-9]{1,12})?[.]?$', '$1 $2:$3:$4$5')", 'string'
    )) }}
{%- endmacro -%}
