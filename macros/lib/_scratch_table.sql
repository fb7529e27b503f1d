{#- A table beside the one that a run keeps, for rows that several statements of the run read. It is a table and not a
    cached view, because the models of a run share one session: Spark analyses all cached views again whenever a table
    below them is written, by settings that another model may have changed; and it plans what reads them for many rows,
    however few there are. -#}

{#- Writes a query's rows into a scratch table and returns it. -#}
{%- macro _scratch_table(target_relation, name, query) -%}
    {%- set table = target_relation.incorporate(path={
        'identifier': target_relation.identifier ~ '__scratch_' ~ afterimage._scratch_run() ~ '_' ~ name
    }) -%}
    {%- set format = config.get('file_format') if config.get('file_format') in ['iceberg', 'delta'] else 'parquet' -%}
    {%- do run_query('create table ' ~ table ~ ' using ' ~ format ~ ' as\n' ~ query) -%}
    {{ return(table) }}
{%- endmacro -%}


{#- What the names of a run's scratch tables have in common: its day, and what tells it from others. -#}
{%- macro _scratch_run() -%}
    {{ return(run_started_at.strftime('%Y%m%d') ~ '_' ~ invocation_id[:8]) }}
{%- endmacro -%}


{#- Drops the scratch tables of this run, and those that killed runs have left behind: another run may still need one
    that is younger than a day. -#}
{%- macro _drop_scratch_tables(target_relation) -%}
    {%- set prefix = target_relation.identifier ~ '__scratch_' -%}
    {%- set day_before = (run_started_at - modules.datetime.timedelta(days=1)).strftime('%Y%m%d') -%}
    {%- set query = 'show tables in ' ~ target_relation.include(identifier=false) ~ " like '" ~ prefix ~ "*'" -%}
    {%- for row in run_query(query) -%}
        {%- set run = row['tableName'][prefix | length:] -%}
        {%- if run.startswith(afterimage._scratch_run()) or run[:8] < day_before -%}
            {%- do run_query(
                'drop table if exists ' ~ target_relation.incorporate(path={'identifier': row['tableName']}) ~ ' purge'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


{#- The condition that a table is still at the snapshot which the run has read: what another run has committed since
    must not be written over. -#}
{%- macro _is_at_snapshot(relation, snapshot) -%}
    {%- if snapshot is none -%}
        {{ return('true') }}
    {%- endif -%}
    {{ return(
        "if((select max(snapshot_id) from " ~ relation ~ ".refs where name = 'main') = " ~ snapshot
        ~ ', true, raise_error(' ~ afterimage._literal(
            model.name ~ ': another run has changed ' ~ relation ~ ' meanwhile. Run again.'
        ) ~ '))'
    ) }}
{%- endmacro -%}
