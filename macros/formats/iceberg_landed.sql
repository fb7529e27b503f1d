{#- Landed rows of an Iceberg table: those that its snapshots have added since the last one read. -#}
{%- macro _iceberg_landed(side, read, is_incremental) -%}
    {%- set relation = side.relation -%}
    {%- set present = afterimage._iceberg_version(relation) -%}
    {%- if present is none -%}
        {#- It never had a row. -#}
        {{ return(afterimage._landed(relation, 'nothing' if is_incremental else 'all', state='', count=0)) }}
    {%- elif read.get('state') == present -%}
        {{ return(afterimage._landed(relation, 'nothing', state=present, is_remembered=true, count=0)) }}
    {%- endif -%}
    {%- set rows = afterimage._at_version(relation, present) -%}
    {%- if not is_incremental -%}
        {#- The first run, or a full refresh. -#}
        {{ return(afterimage._landed(relation, 'all', rows, state=present)) }}
    {%- endif -%}
    {%- set has_record = read.state or read.at -%}
    {%- set start = afterimage._first_snapshot(relation, present, read) if has_record else none -%}
    {%- if not has_record -%}
        {%- set found = {'reason': read.reason} -%}
    {%- elif start is none -%}
        {%- set found = {'reason': 'it was replaced or rolled back, or its snapshots have expired'} -%}
    {%- elif start.snapshot_id == present -%}
        {{ return(afterimage._landed(relation, 'nothing', rows, state=present, count=0)) }}
    {%- elif start.has_delete_files or read.at or afterimage._has_unorderable_columns(relation) -%}
        {#- dbt's `incremental` would not drop the view that a changelog needs. -#}
        {%- set found = afterimage._rows_by_files(relation, start, present, side.column) -%}
    {%- else -%}
        {%- set found = afterimage._rows_by_changelog(relation, start, present, side.removals) -%}
    {%- endif -%}
    {%- if found.landed -%}
        {{ return(afterimage._landed(
            relation, 'new', rows, found.landed, found.views or [], present,
            may_be_gone=found.views is defined and not start.only_appends
        )) }}
    {%- endif -%}
    {#- Everything, with the reason and the number of rows in the log line. -#}
    {%- set count = afterimage._value(
        "select cast(summary['total-records'] as bigint) from " ~ relation ~ '.snapshots where snapshot_id = ' ~ present
    ) if found.reason else none -%}
    {{ return(afterimage._landed(relation, 'all', rows, state=present, count=count, reason=found.reason)) }}
{%- endmacro -%}


{#- Where a run goes on; none if the last snapshot read is not an ancestor of the present one or has expired:
    - `snapshot_id`: the last snapshot read, after which it starts,
    - `since`: the snapshots since that landed rows, or changed some, newest first; `rewrites`: the others, which only
      rewrote files,
    - `added_files`: how many data files the former added; `only_appends`: whether they did nothing else,
    - `has_delete_files`: whether any of them has a delete file, which Iceberg's changelog cannot handle. -#}
{%- macro _first_snapshot(relation, present, read) -%}
    {%- set start -%}
        {%- if read.state -%}
        {{ read.state | int }}
        {%- else -%}
        (
            select max_by(snapshot_id, made_current_at)
            from {{ relation }}.history
            where is_current_ancestor and made_current_at < timestamp_micros({{ read.at | int - 3600000000 }})
        )
        {%- endif -%}
    {%- endset -%}
    {#- Iceberg allows the clocks of committers to differ by a minute. -#}
    {%- set query -%}
        select
            cast(snapshot_id as string) as snapshot_id,
            cast(parent_id as string) as parent_id,
            coalesce(summary['total-delete-files'], '') <> '0'
            or summary['removed-delete-files'] is not null as has_delete_files,
            snapshot_id = {{ start }} as is_start,
            operation = 'replace' as is_rewrite,
            operation = 'append' as is_append,
            -- A missing count means 0 if the writer counts at all, which is optional. Iceberg's own library always writes the
            -- number of changed partitions.
            case
                when summary['added-data-files'] is not null then cast(summary['added-data-files'] as int)
                when summary['changed-partition-count'] is null then 1000000
                else 0
            end as added_files

        from {{ relation }}.snapshots
        where
            committed_at
            >= (select committed_at from {{ relation }}.snapshots where snapshot_id = {{ start }}) - interval 2 minutes
    {%- endset -%}
    {%- set snapshots = {} -%}
    {%- for row in run_query(query).rows -%}
        {%- do snapshots.update({row[0] | string: row}) -%}
    {%- endfor -%}
    {%- set since = [] -%}
    {%- set rewrites = [] -%}
    {%- set walk = namespace(at=present, has_delete_files=false, added_files=0, only_appends=true) -%}
    {%- for _ in snapshots -%}
        {%- if walk.at in snapshots and not snapshots[walk.at]['is_start'] -%}
            {%- if snapshots[walk.at]['is_rewrite'] -%}
                {%- do rewrites.append(walk.at) -%}
            {%- else -%}
                {%- do since.append(walk.at) -%}
                {%- set walk.added_files = walk.added_files + snapshots[walk.at]['added_files'] | int -%}
                {%- set walk.only_appends = walk.only_appends and snapshots[walk.at]['is_append'] -%}
            {%- endif -%}
            {%- set walk.has_delete_files = walk.has_delete_files or snapshots[walk.at]['has_delete_files'] -%}
            {%- set walk.at = snapshots[walk.at]['parent_id'] | string -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if walk.at not in snapshots -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if not walk.has_delete_files -%}
        {#- A table may still carry a list of delete files that are gone. -#}
        {%- set walk.has_delete_files = (since or rewrites) and afterimage._value(
            'select count(*) from ' ~ relation ~ '.all_manifests where content = 1 and reference_snapshot_id = '
            ~ walk.at
        ) > 0 -%}
    {%- endif -%}
    {{ return({
        'snapshot_id': walk.at, 'since': since, 'added_files': walk.added_files, 'rewrites': rewrites,
        'has_delete_files': walk.has_delete_files, 'only_appends': walk.only_appends,
    }) }}
{%- endmacro -%}


{#- Iceberg's changelog sorts by all columns, and Spark cannot sort by a map. -#}
{%- macro _has_unorderable_columns(relation) -%}
    {%- set types = afterimage._relation_columns(relation) | map(attribute='type') | join(' ') -%}
    {{ return('map<' in types or 'variant' in types) }}
{%- endmacro -%}


{#- Landed rows from Iceberg's changelog. It reads only the files of the snapshots in between, and ignores files
    that were merely rewritten, and rows that an overwritten partition has again. -#}
{%- macro _rows_by_changelog(relation, start, present, removals) -%}
    {#- Clients of a server share a session, so the view's name includes the run. Views left by a failed run are
        dropped. -#}
    {%- set of_model = 'afterimage_' ~ local_md5(model.unique_id)[:12] ~ '_' -%}
    {%- set of_run = of_model ~ invocation_id | replace('-', '') -%}
    {#- For this schema Spark lists only the session's own views and does not ask a metastore. -#}
    {%- for row in run_query("show views in spark_catalog.global_temp like '" ~ of_model ~ "*'")
        if not row[1].startswith(of_run)
    -%}
        {%- do run_query('drop view if exists ' ~ row[1]) -%}
    {%- endfor -%}
    {#- Several intakes of a model may read one table, each as it was when that one looked. -#}
    {%- set looked = modules.datetime.datetime.now().isoformat() -%}
    {%- set view = of_run ~ '_landed_' ~ local_md5(relation ~ looked)[:8] -%}
    {%- do afterimage._call_procedure(
        'create_changelog_view', relation,
        ", options => map('start-snapshot-id', '" ~ start.snapshot_id ~ "', 'end-snapshot-id', '" ~ present
        ~ "'), changelog_view => '" ~ view ~ "'"
    ) -%}
    {%- set kinds = "'INSERT'" ~ (", 'DELETE'" if removals) -%}
    {{ return({'views': [view], 'landed': '(select * from ' ~ view ~ ' where _change_type in (' ~ kinds ~ '))'}) }}
{%- endmacro -%}


{#- Landed rows where no changelog is possible: those of the data files added since. Files that were merely rewritten
    count only if one that has landed was rewritten, or deleted: rows read again without those that were deleted beside
    them would make less of a change. None if the files are too many to name. -#}
{%- macro _rows_by_files(relation, start, present, column) -%}
    {%- set entries = relation ~ '.entries version as of ' ~ present -%}
    {%- set has_landed = 'status < 2 and data_file.content = 0 and snapshot_id in ('
        ~ (start.since or ['null']) | join(', ') ~ ')' -%}
    {%- set metrics = 'readable_metrics.' ~ column -%}
    {%- set query -%}
        select
            data_file.file_path as path,
            {%- if column %}
            -- Taken before they are texts: 9 is less than 100.
            cast(min({{ metrics }}.lower_bound) over () as string) as first_value,
            cast(max({{ metrics }}.upper_bound) over () as string) as last_value,
            count_if({{ metrics }}.lower_bound is null or {{ metrics }}.upper_bound is null) over () = 0 as is_bounded
            {%- else %}
            false as is_bounded
            {%- endif %}

        from {{ entries }}
        where
            {{ has_landed }}
            {%- if start.rewrites %}
            or (
                status < 2
                and data_file.content = 0
                and snapshot_id in ({{ start.rewrites | join(', ') }})
                and (select count(*) from {{ entries }} where {{ has_landed }}) < {{ start.added_files }}
            )
            {%- endif %}
        limit 501
    {%- endset -%}
    {%- set files = run_query(query).rows -%}
    {%- if files | length > 500 -%}
        {{ return({'reason': 'it has delete files, and too many files have landed'}) }}
    {%- endif -%}
    {%- set paths = afterimage._each(files | map(attribute='path'), '{name}') -%}
    {%- set conditions = ['_file in (' ~ (paths or ["''"]) | join(', ') ~ ')'] -%}
    {%- if files and files[0]['is_bounded'] -%}
        {%- do conditions.append(
            afterimage._within_bounds(column, files[0]['first_value'], files[0]['last_value'])
        ) -%}
    {%- endif -%}
    {{ return({
        'landed': '(select * from ' ~ afterimage._at_version(relation, present) ~ ' where ' ~ conditions | join(' and ') ~ ')'
    }) }}
{%- endmacro -%}


{#- Where those that landed rows have expired, it is the oldest of the others: the rows were there by then. A branch has
    snapshots too. -#}
{%- macro _iceberg_last_landed(relation) -%}
    {{ return(
        "select coalesce(max(committed_at) filter (where operation not in ('replace', 'delete')), min(committed_at))"
        ~ ' as landed_at from ' ~ relation ~ '.snapshots where snapshot_id in (select snapshot_id from ' ~ relation
        ~ '.history where is_current_ancestor)'
    ) }}
{%- endmacro -%}
