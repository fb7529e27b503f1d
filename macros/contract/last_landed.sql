{#- A query for the time when rows last landed in a raw table, by its metadata alone. It is for a source's
    `loaded_at_query`, which dbt renders when it asks for the freshness. A view cannot tell and counts as fresh, so
    that `source_status:fresher` leaves nothing out. -#}
{%- macro last_landed(relation) -%}
    {%- if not execute -%}
        {{ return('select cast(null as timestamp) as landed_at') }}
    {%- endif -%}
    {%- set format = afterimage._landing_format(relation) -%}
    {%- if format is none -%}
        {{ return('select current_timestamp() as landed_at') }}
    {%- endif -%}
    {{ return(afterimage._of_format(format, 'last_landed')(relation)) }}
{%- endmacro -%}
