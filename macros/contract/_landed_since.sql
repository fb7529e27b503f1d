{#- What has landed in one raw table since the last run:
    - `kind`: `all` (unknown, or the first run), `new` or `nothing`,
    - `rows`: what to read from. For an Iceberg table this is the present snapshot, so that later commits are left to
      the next run,
    - `landed`: for `new`, a query in brackets. It may return more rows than have landed: known change_ids are not
      written again,
    - `views`: temporary views that `landed` needs,
    - `state`: what to remember about the table; `is_remembered` if that is already remembered,
    - `count`: the number of landed rows; `reason`: why all are read, for the log line.

    Iceberg tables find landed rows by snapshot, files by modification time. Any other relation is read in full,
    unless `afterimage_lookback_hours` says how far to look back by the source's clock. -#}
{%- macro _landed_since(side) -%}
    {%- set relation = side.relation -%}
    {%- set landed = {
        'kind': 'all', 'name': relation | string, 'rows': relation | string, 'landed': none, 'views': [], 'state': none,
        'is_remembered': false, 'count': none, 'reason': none,
    } -%}
    {%- set is_incremental = afterimage._is_incremental() -%}
    {%- if not (is_incremental or afterimage._tracks_reads()) or flags.WHICH not in ['run', 'build'] -%}
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


{#- How a relation finds its landed rows: `iceberg` by snapshots, `files` by their times. Nothing else can: not a
    CTE of a unit test, a sample, a view, or a branch of an Iceberg table. -#}
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
    {%- set listed = afterimage._load_relation(whole) -%}
    {%- if listed is not none and listed.is_iceberg -%}
        {{ return('iceberg') }}
    {%- endif -%}
    {#- Details follow the columns, one of which may have the name of a detail. -#}
    {%- for row in run_query('describe table extended ' ~ whole).rows | list | reverse if row[0] == 'Provider' -%}
        {%- set provider = row[1] | lower -%}
        {{ return('files' if provider in afterimage._file_formats() else provider) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro -%}


{#- The rows from `afterimage_lookback_hours` before the newest change in the model's table; nothing if the project
    does not set it. -#}
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
    {%- set start = afterimage._value(query) -%}
    {%- if start is none -%}
        {{ return({}) }}
    {%- endif -%}
    {{ return({
        'kind': 'new',
        'landed': '(select * from ' ~ relation ~ ' where coalesce(' ~ time ~ " >= timestamp '" ~ start ~ "', true))",
    }) }}
{%- endmacro -%}
