{#- A table beside the one that a run keeps, for rows that several statements of the run read. It is not a cached
    view, because the models of a run share one session. Spark analyses all cached views again whenever a table
    below them is written, with settings that another model may have changed. It also plans their readers for many
    rows, however few there are. -#}

{#- Writes a query's rows into a scratch table and returns it. -#}
{%- macro _scratch_table(target_relation, name, query) -%}
    {%- set of_run = run_started_at.strftime('%Y%m%d') ~ '_' ~ invocation_id[:8] -%}
    {%- set table = target_relation.incorporate(path={
        'identifier': target_relation.identifier ~ '__scratch_' ~ of_run ~ '_' ~ name
    }) -%}
    {%- set format = config.get('file_format') if config.get('file_format') in ['iceberg', 'delta'] else 'parquet' -%}
    {%- do run_query('create table ' ~ table ~ ' using ' ~ format ~ ' as\n' ~ query) -%}
    {{ return(table) }}
{%- endmacro -%}
