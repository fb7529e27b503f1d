{#- The current snapshot of an Iceberg table; none for other formats, which rely on their own checks. -#}
{%- macro _snapshot(relation) -%}
    {%- if config.get('file_format') != 'iceberg' -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set query -%}
        select cast(max(snapshot_id) as string) from {{ relation }}.refs where name = 'main'
    {%- endset -%}
    {{ return(run_query(query).columns[0].values()[0]) }}
{%- endmacro -%}
