{#- Landed rows of a Delta table: those that the commits of its log have added since the version read last. The state is
    the table's id, the version, and the time of its commit: a table that was created again has another id, and begins
    with version 0. -#}
{%- macro _delta_landed(side, read, is_incremental) -%}
    {%- set relation = side.relation -%}
    {%- set commit = afterimage._delta_commit(relation) -%}
    {%- set present = commit[0] | int -%}
    {%- set before = (read.state or '').split('@') -%}
    {%- if before[1:] == commit -%}
        {{ return(afterimage._landed(relation, 'nothing', state=read.state, is_remembered=true, count=0)) }}
    {%- endif -%}
    {%- set table = run_query('describe detail ' ~ relation).rows[0] -%}
    {%- set state = ([table['id']] + commit) | join('@') -%}
    {%- set rows = afterimage._at_version(relation, present) -%}
    {%- if not is_incremental -%}
        {#- The first run, or a full refresh. -#}
        {{ return(afterimage._landed(relation, 'all', rows, state=state)) }}
    {%- endif -%}
    {%- set found = {} -%}
    {%- if before | length == 3 and before[0] != table['id'] -%}
        {%- do found.update({'reason': 'it was replaced'}) -%}
    {%- elif before | length == 3 or read.at -%}
        {%- set commits = afterimage._delta_commits_since(relation, present, before, read.at) -%}
        {%- if commits is none -%}
            {%- do found.update({'reason': 'its log no longer holds all commits since'}) -%}
        {%- elif afterimage._has_change_feed(relation, commits) -%}
            {%- do found.update({
                'landed': afterimage._rows_by_change_feed(relation, commits, side.removals),
                'may_be_gone': not afterimage._delta_only_appends(commits),
            }) -%}
        {%- elif target.type == 'databricks' -%}
            {#- Unity Catalog does not let anyone read the log of its managed tables by its path. -#}
            {%- do found.update({'reason': 'it has no change data feed (delta.enableChangeDataFeed)'}) -%}
        {%- else -%}
            {%- do found.update(afterimage._rows_by_log(relation, rows, table['location'], commits, side.column)) -%}
        {%- endif -%}
    {%- else -%}
        {%- do found.update({'reason': read.reason}) -%}
    {%- endif -%}
    {%- if found.is_empty -%}
        {{ return(afterimage._landed(relation, 'nothing', rows, state=state, count=0)) }}
    {%- elif found.landed -%}
        {{ return(afterimage._landed(
            relation, 'new', rows, found.landed, state=state, may_be_gone=found.may_be_gone or false
        )) }}
    {%- endif -%}
    {#- Everything, with the reason and the number of rows in the log line. -#}
    {%- set count = afterimage._value('select count(*) from ' ~ rows) if found.reason else none -%}
    {{ return(afterimage._landed(relation, 'all', rows, state=state, count=count, reason=found.reason)) }}
{%- endmacro -%}


{#- The commits since the version read last, newest first: {version, operation, timestamp}. None if the log has lost
    some of them: Delta keeps them for 30 days. With `at`, the time of the last run, they begin a day before it: the
    clocks of writers differ, and so may the time zones in which a session shows times. -#}
{%- macro _delta_commits_since(relation, present, before, at) -%}
    {%- set commits = [] -%}
    {%- if before | length == 3 -%}
        {%- set start = before[1] | int -%}
        {#- Some more, for commits that have come since `present` was asked. -#}
        {%- set most = [present - start, 1] | max + 100 -%}
        {%- for commit in run_query('describe history ' ~ relation ~ ' limit ' ~ most).rows -%}
            {%- if start < commit['version'] | int <= present -%}
                {%- do commits.append(commit) -%}
            {%- elif commit['version'] | int == start
                and afterimage._delta_clock(commit['timestamp'] | string) != afterimage._delta_clock(before[2]) -%}
                {#- Files from a backup: other commits have these versions now. -#}
                {{ return(none) }}
            {%- endif -%}
        {%- endfor -%}
        {{ return(commits if commits | length == present - start else none) }}
    {%- endif -%}
    {%- set moment = afterimage._value(
        'select cast(timestamp_micros(' ~ at ~ ') - interval 1 day as string)'
    ) -%}
    {%- set is_earlier = namespace(found=false) -%}
    {%- for commit in run_query('describe history ' ~ relation).rows if commit['version'] | int <= present -%}
        {%- if (commit['timestamp'] | string)[:19] < moment[:19] -%}
            {%- set is_earlier.found = true -%}
        {%- elif not is_earlier.found -%}
            {%- do commits.append(commit) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(commits if is_earlier.found or (commits and commits[-1]['version'] | int == 0) else none) }}
{%- endmacro -%}


{#- What no time zone changes of a commit's time: the minutes of a quarter of an hour, and the seconds. (Less than a
    second may be Delta's own, to make a commit later than the one before.) -#}
{%- macro _delta_clock(time) -%}
    {%- set parts = time.split(':') -%}
    {{ return([parts[-2] | int % 15, parts[-1][:2]]) }}
{%- endmacro -%}


{#- Whether Delta's change data feed has the rows of these commits: the table writes one, neither its properties nor its
    columns changed meanwhile, and no file of it can have been removed. The log does not always say that VACUUM was
    here, which removes the files of the feed with those that were deleted, by default after a week. -#}
{%- macro _has_change_feed(relation, commits) -%}
    {%- set properties = afterimage._table_properties(relation) -%}
    {%- if not commits or properties.get('delta.enableChangeDataFeed') != 'true' -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set kept = namespace(time=modules.datetime.timedelta()) -%}
    {%- for count, unit in modules.re.findall(
        '([0-9]+) +(week|day|hour|minute|second)',
        properties.get('delta.deletedFileRetentionDuration', 'interval 7 days') | lower
    ) -%}
        {%- set kept.time = kept.time + modules.datetime.timedelta(**{unit ~ 's': count | int}) -%}
    {%- endfor -%}
    {#- Commits may show their times in another time zone, up to fourteen hours off. -#}
    {%- set age = [kept.time, modules.datetime.timedelta(7)] | min * 6 / 7 - modules.datetime.timedelta(hours=14) -%}
    {%- set oldest = (run_started_at - age).strftime('%Y-%m-%d %H:%M:%S') -%}
    {%- for commit in commits if
        (commit['timestamp'] | string)[:19] < oldest
        or modules.re.search('TBLPROPERTIES|PROTOCOL|COLUMN|VACUUM|RESTORE|CLONE|CREATE', commit['operation'])
    -%}
        {{ return(false) }}
    {%- endfor -%}
    {#- A write may change the columns too, and Delta refuses a feed across that. -#}
    {{ return(afterimage._at_version(relation, commits[-1]['version']) != relation | string) }}
{%- endmacro -%}


{#- Landed rows from the change data feed: inserted rows, and updated ones as they are after the update. -#}
{%- macro _rows_by_change_feed(relation, commits, removals) -%}
    {%- set is_path = afterimage._is_read_by_path(relation) -%}
    {%- set kinds = "'insert', 'update_postimage'" ~ (", 'delete', 'update_preimage'" if removals) -%}
    {{ return(
        '(select * from ' ~ ('table_changes_by_path' if is_path else 'table_changes') ~ '('
        ~ afterimage._literal(relation.identifier | replace('`', '') if is_path else relation | string) ~ ', ' ~ commits[-1]['version'] ~ ', '
        ~ commits[0]['version'] ~ ') where _change_type in (' ~ kinds ~ '))'
    ) }}
{%- endmacro -%}


{#- Landed rows without a change data feed: those of the files that the commits added, as the log lists them. A file
    that was merely rewritten (by OPTIMIZE, or by a DELETE of other rows) counts only if a file that has landed was
    rewritten into it: rows read again without those that were deleted beside them would make less of a change.
    `is_empty` if there is no such file. The table's own statistics let other files be left out, if the order column
    has some. -#}
{%- macro _rows_by_log(relation, rows, location, commits, column) -%}
    {%- if not commits -%}
        {{ return({'is_empty': true}) }}
    {%- endif -%}
    {%- set bounded = namespace(name=none, type=none) -%}
    {%- for known in afterimage._relation_columns(relation)
        if column and known.name | lower == column | replace('`', '') | lower
        and modules.re.fullmatch('string|(tiny|small|big)?int|decimal[(][0-9]+,0[)]', known.type) -%}
        {%- set bounded.name = known.name -%}
        {%- set bounded.type = known.type -%}
    {%- endfor -%}
    {%- set deletes = commits | selectattr('operation', 'equalto', 'DELETE') | map(attribute='version') | join(', ') -%}
    {%- set is_delete = 'cast(left(file, 20) as bigint) in (' ~ (deletes or 'null') ~ ')' -%}
    {%- set query -%}
        with

        actions as (

            select
                cast(left(file, 20) as bigint) as version,
                -- A file that gets a deletion vector is added as what it is.
                if({{ is_delete }} and action.`add`.deletionVector is not null, null, action.`add`.path) as added,
                action.`add`.dataChange and not coalesce({{ is_delete }}, false) as is_new,
                action.remove.path as removed,
                {%- for end in ['min', 'max'] %}
                {%- if bounded.name %}
                cast(
                    from_json(
                        action.`add`.stats,
                        {{ afterimage._literal(end ~ 'Values struct<' ~ afterimage._quote(bounded.name) ~ ':string>') }}
                    ).{{ end }}Values.{{ afterimage._quote(bounded.name) }} as {{ bounded.type }}
                ) as {{ end }}_value,
                {%- else %}
                cast(null as string) as {{ end }}_value,
                {%- endif %}
                {%- endfor %}
                action.commitInfo is not null as is_commit

            from (
                select
                    _metadata.file_name as file,
                    from_json(
                        value,
                        'add struct<path:string,dataChange:boolean,stats:string,'
                        || 'deletionVector:struct<storageType:string>>, remove struct<path:string>,'
                        || ' commitInfo struct<operation:string>'
                    ) as action

                from text.`{{ location | replace('`', '``') }}/_delta_log/*.json`
                where
                    _metadata.file_name between '{{ '%020d' % (commits[-1]['version'] | int) }}'
                    and '{{ '%020d' % (commits[0]['version'] | int) }}.json'
                    and length(_metadata.file_name) = 25
            ) as logged

        ),

        -- Commits that rewrote a file which an earlier one of these commits added.
        rewriting as (

            select sort_array(collect_set(struct(rewritten.version as version, added.version as origin))) as steps
            from actions as rewritten
            inner join actions as added
                on rewritten.removed = added.added and added.version < rewritten.version

        ),

        -- Those that added rows, and those that rewrote what came from them, from the oldest on.
        landing as (

            select explode(aggregate(
                steps,
                (select collect_set(version) from actions where is_new),
                (landed, step) -> if(
                    array_contains(landed, step.origin), array_append(landed, step.version), landed
                )
            )) as version

            from rewriting

        )

        select
            regexp_extract(added, '[^/]*$', 0) as file,
            cast(min(min_value) over () as string) as first_value,
            cast(max(max_value) over () as string) as last_value,
            count_if(min_value is null or max_value is null) over () = 0 as is_bounded,
            (select count(distinct version) from actions where is_commit) as commits

        from actions
        where added is not null and version in (select version from landing)
        limit 501
    {%- endset -%}
    {%- set files = run_query(query).rows -%}
    {%- if not files -%}
        {{ return({'is_empty': true}) }}
    {%- elif files[0]['commits'] | int < commits | length -%}
        {{ return({'reason': 'its log no longer holds all commits since'}) }}
    {%- elif files | length > 500 and not files[0]['is_bounded'] -%}
        {{ return({'reason': 'too many files have landed'}) }}
    {%- endif -%}
    {%- set conditions = [] -%}
    {%- if files | length <= 500 -%}
        {%- do conditions.append(
            'landed_files._metadata.file_name in (' ~ afterimage._each(files | map(attribute='file'), '{name}') | join(', ') ~ ')'
        ) -%}
    {%- endif -%}
    {%- if files[0]['is_bounded'] -%}
        {%- do conditions.append(
            afterimage._within_bounds(afterimage._quote(bounded.name), files[0]['first_value'], files[0]['last_value'])
        ) -%}
    {%- endif -%}
    {#- The alias is needed: within a subquery Spark takes a bare `_metadata` for that of the outer query. -#}
    {{ return({
        'landed': '(select * from ' ~ rows ~ ' as landed_files where ' ~ conditions | join(' and ') ~ ')'
    }) }}
{%- endmacro -%}
