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


{#- Whether commits have appended rows, or rewritten files, and done nothing else. -#}
{%- macro _delta_only_appends(commits) -%}
    {%- for commit in commits if commit['operation'] != 'OPTIMIZE' -%}
        {%- if commit['operation'] not in ['WRITE', 'STREAMING UPDATE']
            or 'Append' not in commit['operationParameters'] | string -%}
            {{ return(false) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(true) }}
{%- endmacro -%}
