{#- Delta tables that our materializations write. A version is a commit of the table's log. Delta's RESTORE takes back
    the properties with the rows, so what a table remembers is true of it, whatever was restored. -#}


{#- On Databricks a managed table is a Delta table; elsewhere a log costs more than a scratch table is worth. -#}
{%- macro _delta_traits() -%}
    {{ return({
        'merges': true, 'replaces': true, 'keeps_properties': false,
        'scratch': 'delta' if target.type == 'databricks' else 'parquet'
    }) }}
{%- endmacro -%}


{%- macro _delta_version(relation) -%}
    {{ return(run_query('describe history ' ~ relation ~ ' limit 1').rows[0]['version'] | string) }}
{%- endmacro -%}


{#- Delta refuses a commit if rows that the statement read were changed since it began. No SQL can ask for the version
    that a statement began with, so a run asks right before it. `_delta_refuse_if_overtaken` asks again. -#}
{%- macro _delta_is_at_version(relation, version) -%}
    {%- if afterimage._delta_commits_of_others(relation, version) -%}
        {%- do exceptions.raise_compiler_error(afterimage._overtaken(relation)) -%}
    {%- endif -%}
true
{%- endmacro -%}


{#- Whether another run committed in the moment between that question and the statement. What the run has written may
    rest on rows that are outdated, so what the table remembers is set back to what this run began with: the next run
    takes the same in once more, and rebuilds it from the table as it is then. -#}
{%- macro _delta_refuse_if_overtaken(relation, version, began_with) -%}
    {%- if afterimage._delta_commits_of_others(relation, version, own=1) -%}
        {%- do afterimage._set_properties(relation, began_with) -%}
        {%- do exceptions.raise_compiler_error(afterimage._overtaken(relation)) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Whether more than a run's `own` commits followed a version. Compaction, which a table may do by itself after a
    write, changes no row. -#}
{%- macro _delta_commits_of_others(relation, version, own=0) -%}
    {%- set count = afterimage._delta_version(relation) | int - version | int -%}
    {%- if 0 <= count <= own -%}
        {{ return(false) }}
    {%- elif count < 0 -%}
        {{ return(true) }}
    {%- endif -%}
    {%- set commits = run_query('describe history ' ~ relation ~ ' limit ' ~ count).rows -%}
    {{ return(afterimage._delta_changing(commits) | length > own) }}
{%- endmacro -%}


{#- The commits that may have changed rows. -#}
{%- macro _delta_changing(commits) -%}
    {%- set changing = [] -%}
    {%- for commit in commits if not modules.re.match('OPTIMIZE|VACUUM', commit['operation']) -%}
        {%- do changing.append(commit['version']) -%}
    {%- endfor -%}
    {{ return(changing) }}
{%- endmacro -%}


{#- Whether nothing but upkeep came between a commit, as _delta_commit returns it, and the version `present`. -#}
{%- macro _delta_is_rewritten(relation, commit, present) -%}
    {%- set commits = afterimage._delta_commits_since(relation, present, [none] + commit, none) -%}
    {{ return(commits is not none and afterimage._delta_changing(commits) == []) }}
{%- endmacro -%}


{%- macro _delta_is_rolled_back(relation, version, present) -%}
    {{ return(false) }}
{%- endmacro -%}


{#- Statistics of a column let Delta skip files by it. By default it keeps them for a table's first 32 columns, which
    are the fields of the images. Delta clusters by no column without them: `liquid_clustered_by`, an option of
    dbt-databricks, has them as SQL names them. A MERGE into a history marks rows as deleted, and does not rewrite their
    files. -#}
{%- macro _delta_properties(kind, renamed) -%}
    {%- set columns = {
        'staging': ['change_seq', 'ingested_at'],
        'history': ['valid_from_seq', 'valid_to_seq'],
        'audit': ['change_seq'],
    } -%}
    {%- set clustered_by = config.get('liquid_clustered_by') or [] -%}
    {%- set names = clustered_by.split(',') if clustered_by is string else clustered_by | list -%}
    {#- Delta refuses a name that is there twice. -#}
    {%- set given = names | join(',') | replace('`', '') | replace(' ', '') | lower -%}
    {%- for name in columns[kind] if renamed.get(name, name) | lower not in given.split(',') -%}
        {%- do names.append(afterimage._quote(renamed.get(name, name))) -%}
    {%- endfor -%}
    {%- set properties = {'delta.dataSkippingStatsColumns': names | join(',')} -%}
    {%- if kind == 'history' -%}
        {%- do properties.update({'delta.enableDeletionVectors': 'true'}) -%}
    {%- endif -%}
    {{ return(properties) }}
{%- endmacro -%}


{#- Delta refuses names with some signs, also of a struct's fields, unless it maps them to names of its own. -#}
{%- macro _delta_name_properties(sql) -%}
    {%- set odd = namespace(is_found=false) -%}
    {%- for column in afterimage._described(sql) if afterimage._delta_must_map(column.name, column.type) -%}
        {%- set odd.is_found = true -%}
    {%- endfor -%}
    {{ return({'delta.columnMapping.mode': 'name'} if odd.is_found else {}) }}
{%- endmacro -%}


{%- macro _delta_must_map(name, type) -%}
    {%- set names = [name] + modules.re.findall('`([^`]*)`', type) -%}
    {{ return(modules.re.search('[ ,;{}()\n\t=]', names | join) is not none) }}
{%- endmacro -%}


{#- A table that is made has these by itself. -#}
{%- macro _delta_before_add(relation, name, type) -%}
    {%- set properties = {} -%}
    {%- if 'timestamp_ntz' in type -%}
        {%- do properties.update({'delta.feature.timestampNtz': 'supported'}) -%}
    {%- endif -%}
    {%- if afterimage._delta_must_map(name, type)
        and afterimage._table_properties(relation).get('delta.columnMapping.mode') != 'name' -%}
        {%- do properties.update({
            'delta.columnMapping.mode': 'name', 'delta.minReaderVersion': '2', 'delta.minWriterVersion': '5'
        }) -%}
    {%- endif -%}
    {%- if properties -%}
        {%- do afterimage._set_properties(relation, properties) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _delta_partitioning(kind, renamed) -%}
    {{ return(
        'partitioned by (' ~ afterimage._quote(renamed.get('closed_by', 'closed_by')) ~ ')' if kind == 'history' else none
    ) }}
{%- endmacro -%}


{%- macro _delta_before_replace(existing_relation) -%}
{%- endmacro -%}


{#- Each run makes two commits: its rows, and what it remembers. A table is compacted by the run that goes past a
    multiple of so many, so that nothing needs to be asked or noted. -#}
{%- macro _delta_compact_when_due(relation, kind, most, version) -%}
    {%- set is_due = (version | int + 2) // (2 * most) > version | int // (2 * most) -%}
    {%- if is_due -%}
        {%- do run_query('optimize ' ~ relation) -%}
    {%- endif -%}
    {{ return(is_due) }}
{%- endmacro -%}


{#- Delta refuses to remove files that are younger than a week, since a reader or a writer may still need them. -#}
{%- macro _delta_maintain(relation, retain_days) -%}
    {%- set days = [retain_days, 7] | max -%}
    {%- do run_query('optimize ' ~ relation) -%}
    {%- do run_query('vacuum ' ~ relation ~ ' retain ' ~ (24 * days) ~ ' hours') -%}
    {{ return('compacted; files that only versions older than ' ~ days ~ ' days need are gone') }}
{%- endmacro -%}


{#- To find the files of older versions, VACUUM lists the table's folder: too much for each run. -#}
{%- macro _delta_expire_when_due(relation, retain_days) -%}
    {{ return(false) }}
{%- endmacro -%}


{%- macro _delta_forget(relation) -%}
    {%- do run_query('reorg table ' ~ relation ~ ' apply (purge)') -%}
    {%- do afterimage._vacuum_all(relation) -%}
{%- endmacro -%}


{#- Delta lists what it would remove: the files that no version needs, and empty folders, those of partitions, such as
    `closed_by=update`, and that of the change data feed. -#}
{%- macro _delta_files_left(relation) -%}
    {%- set files = [] -%}
    {%- set listed = afterimage._vacuum_all(relation, 'dry run').columns[0].values() -%}
    {%- for path in listed if '=' not in path.split('/')[-1] and not path.endswith('/_change_data') -%}
        {%- do files.append(path) -%}
    {%- endfor -%}
    {{ return(files) }}
{%- endmacro -%}


{#- Nobody may be reading an older version meanwhile. Delta notes VACUUM in the log of a table, but not on all stores
    unless it is told to. Without the note `_has_change_feed` would ask for what is gone. -#}
{%- macro _vacuum_all(relation, how='') -%}
    {%- set check = '`spark.databricks.delta.retentionDurationCheck.enabled`' -%}
    {%- set note = '`spark.databricks.delta.vacuum.logging.enabled`' -%}
    {%- do run_query('set ' ~ check ~ ' = `false`') -%}
    {%- do run_query('set ' ~ note ~ ' = `true`') -%}
    {%- set files = run_query('vacuum ' ~ relation ~ ' retain 0 hours ' ~ how) -%}
    {%- do run_query('reset ' ~ check) -%}
    {%- do run_query('reset ' ~ note) -%}
    {{ return(files) }}
{%- endmacro -%}


{%- macro _delta_stored_type(type) -%}
    {{ return(type) }}
{%- endmacro -%}


{#- With Spark 3.5 (Delta 3.3) only small whole numbers become wider ones, up to int. The others, which Delta 4 has, are
    errors there. -#}
{%- macro _delta_widens(built, found) -%}
    {%- set numbers = ['tinyint', 'smallint', 'int', 'bigint'] -%}
    {%- set is_wider = built in numbers and found in numbers and numbers.index(found) > numbers.index(built) -%}
    {%- if is_wider and found != 'bigint' -%}
        {{ return(true) }}
    {%- endif -%}
    {%- set can_more = afterimage._value('select version()').split('.')[0] | int >= 4 -%}
    {{ return(can_more and (
        is_wider or afterimage._is_wider_decimal(built, found) or built ~ ' to ' ~ found == 'float to double'
    )) }}
{%- endmacro -%}


{#- A table allows it by a property, which is set once. -#}
{%- macro _delta_widen_column(relation, column, type) -%}
    {%- if afterimage._table_properties(relation).get('delta.enableTypeWidening') != 'true' -%}
        {%- do afterimage._set_properties(relation, {'delta.enableTypeWidening': 'true'}) -%}
    {%- endif -%}
    {%- do run_query('alter table ' ~ relation ~ ' alter column ' ~ column ~ ' type ' ~ type) -%}
{%- endmacro -%}


{#- No query can ask for the history, so the macro does. A table whose last hundred commits landed nothing counts as
    having landed with the oldest of them. -#}
{%- macro _delta_last_landed(relation) -%}
    {%- set commits = run_query('describe history ' ~ relation ~ ' limit 100').rows -%}
    {%- set landed = namespace(at=commits[-1]['timestamp']) -%}
    {%- for commit in commits | reverse
        if not modules.re.search(
            '^OPTIMIZE|^VACUUM|^DELETE|^REORG|TBLPROPERTIES|PROTOCOL|COLUMN', commit['operation']
        ) -%}
        {%- set landed.at = commit['timestamp'] -%}
    {%- endfor -%}
    {{ return("select timestamp '" ~ (landed.at | string)[:19] ~ "' as landed_at") }}
{%- endmacro -%}


{#- The version of the newest commit and its time, as the state has them. -#}
{%- macro _delta_commit(relation) -%}
    {%- set newest = run_query('describe history ' ~ relation ~ ' limit 1').rows[0] -%}
    {{ return([newest['version'] | string, newest['timestamp'] | string]) }}
{%- endmacro -%}
