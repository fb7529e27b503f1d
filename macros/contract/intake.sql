{#- What a run reads of a raw table: the rows that have landed since the run before, whatever the source's clock says.

    An Iceberg table knows by its snapshots what has landed. A `change_stream` remembers in its table's properties which
    snapshot of each raw table it has read. (dbt's `incremental` remembers nothing: it looks back.) The result has
    - `kind`: `all` (read everything), `nothing`, `new` (read `landed`, and the earlier rows that belong to those), or
      `unknown` (the table cannot say; the dialect looks back by its own order),
    - `rows_at`: what to read from, at the snapshot that was asked for, so that what is committed meanwhile is the next
      run's,
    - `landed`: for `new`, a query in brackets for the rows that have landed. More of them than that do no harm: what
      is known by its change_id is not written again,
    - `views`: temporary views that `landed` needs.
    `order_column` is the text column that the dialect orders by; its bounds leave out files. -#}
{%- macro _intake(relation, order_column=none) -%}
    {%- set is_incremental = afterimage._is_incremental() -%}
    {%- set intake = {
        'kind': 'all', 'name': relation | string, 'rows_at': relation, 'landed': none, 'views': [], 'rows': none,
        'snapshot': none, 'is_marked': false, 'reason': none,
    } -%}
    {%- if not (is_incremental or afterimage._keeps_mark()) -%}
        {{ return(intake) }}
    {%- endif -%}
    {%- if not (afterimage._keeps_mark() and afterimage._has_snapshots(relation)) -%}
        {%- do intake.update({'kind': 'unknown' if is_incremental else 'all'}) -%}
        {{ return(intake) }}
    {%- endif -%}
    {%- set marks = afterimage._intake_marks() if is_incremental else {} -%}
    {%- set present = afterimage._intake_snapshots(relation, marks) -%}
    {%- do intake.update({'snapshot': present.raw}) -%}
    {%- if is_incremental and not present.is_rolled_back
        and marks.read.get(intake.name) == present.raw -%}
        {%- do intake.update({'kind': 'nothing', 'is_marked': true, 'rows': 0}) -%}
        {{ return(intake) }}
    {%- endif -%}
    {%- if present.raw == '' -%}
        {%- do intake.update({'kind': 'nothing' if is_incremental else 'all', 'rows': 0}) -%}
        {{ return(intake) }}
    {%- endif -%}
    {%- do intake.update({'rows_at': afterimage._intake_at(relation, present.raw)}) -%}
    {%- if not is_incremental -%}
        {{ return(intake) }}
    {%- endif -%}

    {%- if present.is_rolled_back -%}
        {%- set start = none -%}
        {%- set reason = this ~ ' was rolled back' -%}
    {%- elif not marks.read.get(intake.name) -%}
        {%- set start = none -%}
        {%- set reason = 'nothing says what of it was read before' -%}
    {%- else -%}
        {%- set start = afterimage._intake_start(relation, present.raw, marks.read[intake.name]) -%}
        {%- set reason = 'it was replaced or rolled back, or its snapshots have expired' -%}
    {%- endif -%}
    {%- if start is none -%}
        {%- set landed = none -%}
    {%- elif start.snapshot_id == present.raw -%}
        {%- do intake.update({'kind': 'nothing', 'rows': 0}) -%}
        {{ return(intake) }}
    {%- elif start.has_delete_files or afterimage._has_unorderable_columns(relation) -%}
        {%- set landed = afterimage._intake_by_files(relation, start, intake, order_column) -%}
        {%- set reason = 'it has delete files, and too many files have landed' -%}
    {%- else -%}
        {%- set landed = afterimage._intake_by_changelog(relation, start, intake) -%}
    {%- endif -%}
    {%- if landed is none -%}
        {%- do intake.update({'reason': reason, 'rows': afterimage._rows_at_snapshot(relation, present.raw)}) -%}
    {%- else -%}
        {%- do intake.update({'kind': 'new', 'landed': landed}) -%}
    {%- endif -%}
    {{ return(intake) }}
{%- endmacro -%}


{#- What the compiled SQL says of an intake, for the materialization to remember and to report. -#}
{%- macro _intake_marker(intake) -%}
    {%- if not afterimage._keeps_mark() or intake.snapshot is none -%}
        {{ return('') }}
    {%- endif -%}
    {%- set said = {} -%}
    {%- for name in ['name', 'snapshot', 'is_marked', 'rows', 'reason', 'views'] -%}
        {%- do said.update({name: intake[name]}) -%}
    {%- endfor -%}
    {{ return('/* afterimage intake ' ~ tojson(said) ~ ' */\n') }}
{%- endmacro -%}


{#- The intakes that a model's compiled SQL speaks of. -#}
{%- macro _intakes(sql) -%}
    {%- set intakes = [] -%}
    {%- for said in modules.re.findall('/\\* afterimage intake ([{].*?[}]) \\*/', sql) -%}
        {%- do intakes.append(fromjson(said)) -%}
    {%- endfor -%}
    {{ return(intakes) }}
{%- endmacro -%}


{#- What the landed rows are, by one look at them: how many, the ranges of places they have, and how many have no place.
    Ranges are by what the places begin with (`width` characters, such as a day), so that one late row does not stretch
    them over all that came between. Where nobody drops the views later, they go now, and the rows of the ranges are
    read without asking which of them share a place with a landed row. -#}
{%- macro _intake_extent(intake, place, has_place, width) -%}
    {%- set extent = {'rows': 0, 'others': 0, 'ranges': []} -%}
    {%- set query -%}
        select
            if(has_place, left(place, {{ width }}), null) as beginning,
            count(*) as row_count,
            min(place) as first_place,
            max(place) as last_place

        from (
            select
                {{ place }} as place,
                {{ has_place }} as has_place

            from {{ intake.landed }} as landed
        ) as placed
        group by 1
        order by 1
    {%- endset -%}
    {%- set found = [] -%}
    {%- for row in run_query(query).rows -%}
        {%- do extent.update({'rows': extent.rows + row['row_count'] | int}) -%}
        {%- if row['beginning'] is none -%}
            {%- do extent.update({'others': row['row_count'] | int}) -%}
        {%- else -%}
            {%- do found.append([row['first_place'], row['last_place']]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for neighbours in found | batch((found | length + 29) // 30 or 1) -%}
        {%- do extent.ranges.append([neighbours[0][0], neighbours[-1][1]]) -%}
    {%- endfor -%}
    {%- do intake.update({'rows': extent.rows}) -%}
    {%- set serves_this_run = afterimage._keeps_mark() and flags.WHICH in ['run', 'build'] -%}
    {%- if intake.views and (extent.rows == 0 or not serves_this_run) -%}
        {%- for view in intake.views -%}
            {%- do run_query('drop view if exists ' ~ view) -%}
        {%- endfor -%}
        {%- do intake.update({'views': [], 'landed': none}) -%}
    {%- endif -%}
    {%- if extent.rows == 0 -%}
        {%- do intake.update({'kind': 'nothing'}) -%}
    {%- endif -%}
    {{ return(extent) }}
{%- endmacro -%}


{#- Whether the model remembers what it has read: only with a format that a run can add to. -#}
{%- macro _keeps_mark() -%}
    {{ return(
        this is not none and model.config.materialized == 'change_stream'
        and model.config.get('file_format') in afterimage._mergeable_formats()
    ) }}
{%- endmacro -%}


{%- macro _mergeable_formats() -%}
    {{ return(['iceberg', 'delta', 'hudi']) }}
{%- endmacro -%}


{#- Whether a relation is a whole Iceberg table: no CTE of a unit test, no sample, none of a table's branches. -#}
{%- macro _has_snapshots(relation) -%}
    {%- if relation is string or relation.identifier.startswith('__dbt__cte__') or '.' in relation.identifier -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set whole = relation.replace(limit=none, event_time_filter=none) -%}
    {%- if whole | string != relation | string -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set listed = load_relation(whole) -%}
    {%- if listed is not none -%}
        {{ return(listed.is_iceberg) }}
    {%- endif -%}
    {%- for row in run_query('describe table extended ' ~ whole) if row[0] == 'Provider' -%}
        {{ return(row[1] | lower == 'iceberg') }}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro -%}


{#- What the model's table remembers: {read: raw table -> snapshot, snapshot: its own when that was said}. -#}
{%- macro _intake_marks() -%}
    {%- set properties = {} -%}
    {%- for row in run_query('show tblproperties ' ~ this) -%}
        {%- do properties.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- set read = afterimage._from_property(properties.get('afterimage.read')) -%}
    {{ return({
        'read': fromjson(read) if read else {},
        'snapshot': properties.get('afterimage.snapshot', ''),
    }) }}
{%- endmacro -%}


{#- The snapshot that the raw table is at (empty: it never had a row), and whether the model's own table was rolled back
    since it said what it had read: that takes back the rows and not the properties. -#}
{%- macro _intake_snapshots(relation, marks) -%}
    {%- set sides = {'raw': relation} -%}
    {%- if marks.snapshot -%}
        {%- do sides.update({'staged': this}) -%}
    {%- endif -%}
    {%- set query -%}
        {%- for side, table in sides.items() %}
        select
            '{{ side }}' as side,
            cast(snapshot_id as string) as snapshot_id

        from {{ table }}.refs
        where name = 'main'
        {{ 'union all' if not loop.last }}
        {%- endfor %}
    {%- endset -%}
    {%- set found = {'raw': '', 'staged': ''} -%}
    {%- for side, snapshot in run_query(query).rows -%}
        {%- do found.update({side: snapshot | string}) -%}
    {%- endfor -%}
    {%- set is_rolled_back = false -%}
    {%- if marks.snapshot and found.staged != marks.snapshot -%}
        {%- set query -%}
            select count_if(not is_current_ancestor) from {{ this }}.history
            where snapshot_id = {{ marks.snapshot | int }}
        {%- endset -%}
        {%- set is_rolled_back = run_query(query).columns[0].values()[0] > 0 -%}
    {%- endif -%}
    {{ return({'raw': found.raw, 'is_rolled_back': is_rolled_back}) }}
{%- endmacro -%}


{#- The snapshot that was read last, to begin after; none where it is no ancestor of the present one, or has expired.
    With the snapshots `since`, the newest first, and whether any of them has a delete file, which Iceberg's changelog
    cannot read past. -#}
{%- macro _intake_start(relation, present, mark) -%}
    {%- set query -%}
        select
            cast(history.snapshot_id as string) as snapshot_id,
            cast(unix_micros(snapshots.committed_at) as string) as committed_at

        from {{ relation }}.history as history
        inner join {{ relation }}.snapshots as snapshots
            on history.snapshot_id = snapshots.snapshot_id
        where
            history.is_current_ancestor
            and history.snapshot_id = {{ mark | int }}
        order by history.made_current_at desc
        limit 1
    {%- endset -%}
    {%- set found = run_query(query).rows -%}
    {%- if found | length == 0 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set start = found[0][0] | string -%}
    {#- Iceberg lets the clocks of those who commit differ by a minute. -#}
    {%- set query -%}
        select
            cast(snapshot_id as string) as snapshot_id,
            cast(parent_id as string) as parent_id,
            coalesce(summary['total-delete-files'], '') <> '0'
            or summary['removed-delete-files'] is not null as has_delete_files

        from {{ relation }}.snapshots
        where committed_at >= timestamp_micros({{ found[0][1] }}) - interval 2 minutes
    {%- endset -%}
    {%- set snapshots = {} -%}
    {%- for row in run_query(query).rows -%}
        {%- do snapshots.update({row[0] | string: row}) -%}
    {%- endfor -%}
    {%- set since = [] -%}
    {%- set walk = namespace(at=present, has_delete_files=false) -%}
    {%- for _ in snapshots -%}
        {%- if walk.at != start and walk.at in snapshots -%}
            {%- do since.append(walk.at) -%}
            {%- set walk.has_delete_files = walk.has_delete_files or snapshots[walk.at]['has_delete_files'] -%}
            {%- set walk.at = snapshots[walk.at]['parent_id'] | string -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if walk.at != start -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if not walk.has_delete_files -%}
        {#- A list of delete files that are gone may still be carried along. -#}
        {%- set query -%}
            select count(*) from {{ relation }}.all_manifests where content = 1 and reference_snapshot_id = {{ start }}
        {%- endset -%}
        {%- set walk.has_delete_files = since and run_query(query).columns[0].values()[0] > 0 -%}
    {%- endif -%}
    {{ return({'snapshot_id': start, 'since': since, 'has_delete_files': walk.has_delete_files}) }}
{%- endmacro -%}


{#- Iceberg's changelog sorts by all columns, which Spark cannot do by a map. -#}
{%- macro _has_unorderable_columns(relation) -%}
    {%- for column in afterimage._relation_columns(relation) if 'map<' in column.type or 'variant' in column.type -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro -%}


{#- The landed rows by Iceberg's changelog: it reads the files of the snapshots in between alone, and knows that files
    which were only rewritten bring no rows. -#}
{%- macro _intake_by_changelog(relation, start, intake) -%}
    {%- set view = afterimage._view_prefix() ~ '_landed_' ~ local_md5(intake.name)[:8] -%}
    {%- do run_query(
        'call system.create_changelog_view(table => ' ~ afterimage._literal(relation | string)
        ~ ", options => map('start-snapshot-id', '" ~ start.snapshot_id ~ "', 'end-snapshot-id', '" ~ intake.snapshot
        ~ "'), changelog_view => '" ~ view ~ "')"
    ) -%}
    {%- do intake.update({'views': [view]}) -%}
    {{ return('(select * from ' ~ view ~ " where _change_type = 'INSERT')") }}
{%- endmacro -%}


{#- The same where the table has delete files: the rows of the data files that were added since, files that were only
    rewritten included. None where these are too many to name. -#}
{%- macro _intake_by_files(relation, start, intake, order_column) -%}
    {%- set bound = 'cast(readable_metrics.' ~ order_column ~ '.<bound> as string)' if order_column else 'null' -%}
    {%- set query -%}
        select
            data_file.file_path as path,
            {{ bound | replace('<bound>', 'lower_bound') }} as lower_bound,
            {{ bound | replace('<bound>', 'upper_bound') }} as upper_bound

        from {{ relation }}.entries version as of {{ intake.snapshot }}
        where
            status < 2
            and data_file.content = 0
            and snapshot_id in ({{ start.since | join(', ') }})
        limit 501
    {%- endset -%}
    {%- set files = run_query(query).rows -%}
    {%- if files | length > 500 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set paths = [] -%}
    {%- set lower = [] -%}
    {%- set upper = [] -%}
    {%- for file in files -%}
        {%- do paths.append(afterimage._literal(file[0])) -%}
        {%- if file[1] is not none and file[2] is not none -%}
            {%- do lower.append(file[1] | string) -%}
            {%- do upper.append(file[2] | string) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set conditions = ['_file in (' ~ (paths or ["''"]) | join(', ') ~ ')'] -%}
    {%- if lower and lower | length == paths | length -%}
        {%- do conditions.append(
            '(' ~ order_column ~ ' between ' ~ afterimage._literal(lower | min) ~ ' and '
            ~ afterimage._literal(upper | max) ~ ' or ' ~ order_column ~ ' is null)'
        ) -%}
    {%- endif -%}
    {{ return('(select * from ' ~ intake.rows_at ~ ' where ' ~ conditions | join(' and ') ~ ')') }}
{%- endmacro -%}


{#- The table at a snapshot. A snapshot has the columns of its time, and a macro names those that the table has now:
    where they have changed without a commit since, the table is read as it is, and what comes meanwhile is read once
    more. -#}
{%- macro _intake_at(relation, snapshot) -%}
    {%- set at = relation ~ ' version as of ' ~ snapshot -%}
    {%- set kept = run_query('describe query select * from ' ~ at).rows | map('join', ' ') | list -%}
    {%- set present = run_query('describe query select * from ' ~ relation).rows | map('join', ' ') | list -%}
    {{ return(at if kept == present else relation | string) }}
{%- endmacro -%}


{%- macro _rows_at_snapshot(relation, snapshot) -%}
    {%- set query -%}
        select cast(summary['total-records'] as bigint) from {{ relation }}.snapshots where snapshot_id = {{ snapshot }}
    {%- endset -%}
    {{ return(run_query(query).columns[0].values()[0]) }}
{%- endmacro -%}
