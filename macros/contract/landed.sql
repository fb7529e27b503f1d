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


{#- The latest time that may count as the newest change when a run decides what to read: a day after the run's
    start. Otherwise a change dated 2099 would hide all that arrives until then. -#}
{%- macro _latest_time() -%}
    {{ return((run_started_at + modules.datetime.timedelta(days=1)).strftime('%Y-%m-%d %H:%M:%S')) }}
{%- endmacro -%}


{#- Landed rows of a table of files: those of files written since the last run, and of files from the hour before
    that are not known yet, because a file may become visible some time after it was written. The state holds the
    time of the newest file, and the files of the hour before it unless they are too many. Spark skips files by
    conditions on `_metadata`, so a run without news only lists them. -#}
{%- macro _landed_in_files(relation) -%}
    {%- set is_incremental = afterimage._is_incremental() -%}
    {%- set read = afterimage._read_before(relation | string) if is_incremental else {} -%}
    {#- A snapshot is remembered if the table of this name was an Iceberg table before. -#}
    {%- set is_of_files = (read.get('state') or '').startswith('{') -%}
    {%- set before = fromjson(read.state) if is_of_files else {'newest': read.get('at'), 'files': none} -%}
    {%- if relation.schema | lower not in afterimage._file_formats() -%}
        {#- A long-lived session would use the file list from when it first read the table. -#}
        {%- do run_query('refresh table ' ~ relation) -%}
    {%- endif -%}
    {%- set unread = afterimage._is_written_since(before.newest, before.files) -%}
    {%- set found = afterimage._files_of(relation, unread) -%}
    {%- if found.newest is none -%}
        {{ return({
            'kind': 'nothing' if is_incremental else 'all', 'state': read.get('state'), 'is_remembered': true, 'count': 0,
        }) }}
    {%- endif -%}
    {#- A file from the future must not hide those that are written until then. -#}
    {%- set now = (run_started_at.timestamp() * 1000000) | int -%}
    {%- set newest = [[found.newest | int, (before.newest or 0) | int] | max, now] | min -%}
    {%- set known = afterimage._files_of(relation, afterimage._is_written_since(newest)) -%}
    {%- set landed = {'state': tojson({'newest': newest, 'files': known.files})} -%}
    {%- if before.newest -%}
        {%- do landed.update({'kind': 'new', 'landed': '(select * from ' ~ relation ~ ' where ' ~ unread ~ ')'}) -%}
    {%- elif is_incremental -%}
        {%- do landed.update({'reason': read.reason}) -%}
    {%- endif -%}
    {{ return(landed) }}
{%- endmacro -%}


{#- The time of the newest file in microseconds, and an identifier for each file if there are at most 200. -#}
{%- macro _files_of(relation, condition) -%}
    {%- set query -%}
        select
            cast(max(unix_micros(modified_at)) as string) as newest,
            if(count(*) <= 200, concat_ws(' ', collect_list(file)), null) as files

        from (
            select distinct
                {{ afterimage._file_mark() }} as file,
                _metadata.file_modification_time as modified_at

            from {{ relation }}
            where {{ condition }}
        ) as written
    {%- endset -%}
    {%- set row = run_query(query).rows[0] -%}
    {{ return({'newest': row[0], 'files': row[1]}) }}
{%- endmacro -%}


{#- The condition that a file was written after an hour before `moment` and is not one of `files`. -#}
{%- macro _is_written_since(moment, files=none) -%}
    {%- if moment is none -%}
        {{ return('true') }}
    {%- endif -%}
    {%- set hour = 3600000000 -%}
    {%- set is_written = '_metadata.file_modification_time >= timestamp_micros(' ~ (moment | int - hour) ~ ')' -%}
    {%- if not files -%}
        {{ return(is_written) }}
    {%- endif -%}
    {{ return(is_written ~ ' and ' ~ afterimage._file_mark() ~ " not in ('" ~ files.split() | join("', '") ~ "')") }}
{%- endmacro -%}


{%- macro _file_mark() -%}
    {{ return('hex(xxhash64(_metadata.file_path, _metadata.file_size, _metadata.file_modification_time))') }}
{%- endmacro -%}
