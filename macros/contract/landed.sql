{#- What has landed in one raw table since the last run, as _landed lists it. Iceberg tables find landed rows by
    snapshot, files by modification time. Any other relation is read in full, unless `afterimage_lookback_hours` says
    how far to look back by the source's clock. -#}
{%- macro _landed_since(side, remembered) -%}
    {%- set relation = side.relation -%}
    {%- set is_incremental = afterimage._is_incremental() -%}
    {%- if not (is_incremental or afterimage._tracks_reads()) or flags.WHICH not in ['run', 'build'] -%}
        {#- A query that is only shown, or a table that every run rebuilds. -#}
        {{ return(afterimage._landed(relation, 'all')) }}
    {%- elif not side.is_tracked -%}
        {{ return(afterimage._landed(relation, 'unknown')) }}
    {%- endif -%}
    {%- set format = afterimage._landing_format(relation) -%}
    {%- if format == 'iceberg' -%}
        {{ return(afterimage._landed_in_iceberg(relation, side.column, remembered)) }}
    {%- elif format == 'files' -%}
        {{ return(afterimage._landed_in_files(relation, remembered)) }}
    {%- elif is_incremental and side.time -%}
        {{ return(afterimage._landed_by_time(relation, side.time)) }}
    {%- endif -%}
    {{ return(afterimage._landed(relation, 'all')) }}
{%- endmacro -%}


{#- What has landed in a raw table:
    - `kind`: `all` (the first run, or nobody can tell), `new`, `nothing`, or `unknown` (nobody asks),
    - `rows`: what to read from. For an Iceberg table this is the present snapshot, so that later commits are left to
      the next run,
    - `landed`: for `new`, a query in brackets. It may return more rows than have landed: known change_ids are not
      written again,
    - `views`: temporary views that `landed` needs,
    - `state`: what to remember about the table; `is_remembered` if that is already remembered,
    - `count`: the number of landed rows; `reason`: why all are read. Both are for the log line,
    - `extents`, `has_unplaced`: their places, and `digest_now`; _landed_summary says what they are,
    - `name`: the table, as it is remembered. -#}
{%- macro _landed(
    relation, kind, rows=none, landed=none, views=[], state=none, is_remembered=false, count=none, reason=none
) -%}
    {{ return({
        'kind': kind, 'name': relation | string, 'rows': rows or relation | string, 'landed': landed, 'views': views,
        'state': state, 'is_remembered': is_remembered, 'count': count, 'reason': reason, 'extents': [],
        'has_unplaced': false, 'digest_now': none,
    }) }}
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
    {#- DESCRIBE EXTENDED lists the columns first. A column may be called Provider, so search from the end. -#}
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
        {{ return(afterimage._landed(relation, 'all')) }}
    {%- endif -%}
    {%- do afterimage._check_number('source macros', 'var afterimage_lookback_hours', hours) -%}
    {%- set query -%}
        select cast(max(changed_at) - interval {{ hours }} hours as string)
        from {{ this }}
        where reject_reason is null and changed_at <= timestamp '{{ afterimage._latest_time() }}'
    {%- endset -%}
    {%- set start = afterimage._value(query) -%}
    {%- if start is none -%}
        {{ return(afterimage._landed(relation, 'all')) }}
    {%- endif -%}
    {{ return(afterimage._landed(
        relation, 'new', landed='(select * from ' ~ relation ~ ' where coalesce(' ~ time ~ " >= timestamp '" ~ start ~ "', true))"
    )) }}
{%- endmacro -%}


{#- The latest time that may count as the newest change when a run decides what to read: a day after the run's
    start. Otherwise a change dated 2099 would hide all that arrives until then. -#}
{%- macro _latest_time() -%}
    {{ return((run_started_at + modules.datetime.timedelta(days=1)).strftime('%Y-%m-%d %H:%M:%S')) }}
{%- endmacro -%}
