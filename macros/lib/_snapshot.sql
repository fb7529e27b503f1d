{#- The snapshot that an Iceberg table is at; none for other formats, whose own checks must do. -#}
{%- macro _snapshot(relation) -%}
    {%- if config.get('file_format') != 'iceberg' -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set query -%}
        select cast(max(snapshot_id) as string) from {{ relation }}.refs where name = 'main'
    {%- endset -%}
    {{ return(run_query(query).columns[0].values()[0]) }}
{%- endmacro -%}
