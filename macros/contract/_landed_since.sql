{#- What has landed in one raw table since the run before:
    - `kind`: `all` (nobody can say, or it is the first run), `new`, or `nothing`,
    - `rows`: what to read from; of an Iceberg table its present snapshot, so that what is committed meanwhile is the next
      run's,
    - `landed`: for `new`, a query in brackets. More rows than have landed do no harm: what is known by its change_id is
      not written again,
    - `views`: temporary views that `landed` needs,
    - `state`: what to remember of the table, `is_remembered` where that is what was remembered before,
    - `count`: the rows that have landed, `reason`: why all are read, for the run's line.
    An Iceberg table knows by its snapshots what has landed, files by the time when they were written. Of anything else all
    is read, unless `afterimage_lookback_hours` says how far to look back by the source's clock. -#}
{%- macro _landed_since(side) -%}
    {%- set relation = side.relation -%}
    {%- set landed = {
        'kind': 'all', 'name': relation | string, 'rows': relation | string, 'landed': none, 'views': [], 'state': none,
        'is_remembered': false, 'count': none, 'reason': none,
    } -%}
    {%- set is_incremental = afterimage._is_incremental() -%}
    {%- if not (is_incremental or afterimage._keeps_mark()) or flags.WHICH not in ['run', 'build'] -%}
        {{ return(landed) }}
    {%- endif -%}
    {%- set format = afterimage._landing_format(relation) -%}
    {%- if format == 'iceberg' -%}
        {%- do landed.update(afterimage._landed_in_iceberg(relation, side.column)) -%}
    {%- elif format == 'files' -%}
        {%- do landed.update(afterimage._landed_in_files(relation)) -%}
    {%- elif is_incremental and side.time -%}
        {%- do landed.update(afterimage._landed_by_time(relation, side.time)) -%}
    {%- endif -%}
    {{ return(landed) }}
{%- endmacro -%}


{#- How a relation can say what has landed: `iceberg` by snapshots, `files` by their times. Nothing else can, so neither
    can a CTE of a unit test, a sample, a view, or one of an Iceberg table's branches. -#}
{%- macro _landing_format(relation) -%}
    {%- if relation is string or relation.identifier.startswith('__dbt__cte__') -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set whole = relation.replace(limit=none, event_time_filter=none) -%}
    {%- if whole | string != relation | string -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if relation.schema | lower in afterimage._file_formats() -%}
        {{ return('files') }}
    {%- elif '.' in relation.identifier -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set listed = load_relation(whole) -%}
    {%- if listed is not none and listed.is_iceberg -%}
        {{ return('iceberg') }}
    {%- endif -%}
    {%- for row in run_query('describe table extended ' ~ whole) if row[0] == 'Provider' -%}
        {%- set provider = row[1] | lower -%}
        {{ return('files' if provider in afterimage._file_formats() else provider) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro -%}


{#- The rows from the look-back on, before the newest change that the model's table holds; nothing where the project
    sets none. -#}
{%- macro _landed_by_time(relation, time) -%}
    {%- set hours = afterimage._setting('afterimage_lookback_hours') -%}
    {%- if hours is none -%}
        {{ return({}) }}
    {%- endif -%}
    {%- do afterimage._check_number('source macros', 'var afterimage_lookback_hours', hours) -%}
    {%- set query -%}
        select cast(max(changed_at) - interval {{ hours }} hours as string)
        from {{ this }}
        where reject_reason is null and changed_at <= timestamp '{{ afterimage._latest_time() }}'
    {%- endset -%}
    {%- set start = run_query(query).columns[0].values()[0] -%}
    {%- if start is none -%}
        {{ return({}) }}
    {%- endif -%}
    {{ return({
        'kind': 'new',
        'landed': '(select * from ' ~ relation ~ ' where coalesce(' ~ time ~ " >= timestamp '" ~ start ~ "', true))",
    }) }}
{%- endmacro -%}
