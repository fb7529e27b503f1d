{#- Iceberg tables that our materializations write. A version is a snapshot. -#}


{%- macro _iceberg_traits() -%}
    {{ return({'merges': true, 'replaces': true, 'keeps_properties': true, 'scratch': 'iceberg'}) }}
{%- endmacro -%}


{#- The current snapshot; none if the table never had a row. Iceberg shows it among the table's properties, which takes
    no Spark job. -#}
{%- macro _iceberg_version(relation) -%}
    {%- set shown = afterimage._table_properties(relation).get('current-snapshot-id') -%}
    {%- if shown is not none -%}
        {{ return(shown if shown != 'none' else none) }}
    {%- endif -%}
    {{ return(afterimage._value(
        'select cast(max(snapshot_id) as string) from ' ~ relation ~ ".refs where name = 'main'"
    )) }}
{%- endmacro -%}


{#- Iceberg refuses a MERGE if rows that it would have matched were committed since the statement was planned. The
    condition is for what was committed between the run's first look and then. A catalog may compact a table at any
    time, which changes no row. -#}
{%- macro _iceberg_is_at_version(relation, version) -%}
{%- if version is none -%}
true
{%- else -%}
if(
    (select max(snapshot_id) from {{ relation }}.refs where name = 'main')
    = {{ afterimage._iceberg_compacted_version(relation, version) }},
    true,
    raise_error({{ afterimage._literal(afterimage._overtaken(relation)) }})
)
{%- endif -%}
{%- endmacro -%}


{#- The current snapshot if only compactions followed a version, otherwise that version. -#}
{%- macro _iceberg_compacted_version(relation, version) -%}
    {%- set present = afterimage._iceberg_version(relation) -%}
    {%- if present == version -%}
        {{ return(version) }}
    {%- endif -%}
    {%- set parents = dict(run_query(
        'select cast(snapshot_id as string), cast(parent_id as string) from ' ~ relation
        ~ ".snapshots where operation = 'replace'"
    ).rows | map('list') | list) -%}
    {%- set walk = namespace(at=present) -%}
    {%- for _ in parents -%}
        {%- set walk.at = walk.at if walk.at == version else parents.get(walk.at) -%}
    {%- endfor -%}
    {{ return(present if walk.at == version else version) }}
{%- endmacro -%}


{%- macro _iceberg_refuse_if_overtaken(relation, version, began_with) -%}
{%- endmacro -%}


{#- A rollback takes back the rows but not the properties. -#}
{%- macro _iceberg_is_rolled_back(relation, version, present) -%}
    {%- if not version or present == version -%}
        {{ return(false) }}
    {%- endif -%}
    {{ return(afterimage._value(
        'select count_if(not is_current_ancestor) from ' ~ relation ~ '.history where snapshot_id = ' ~ version | int
    ) > 0) }}
{%- endmacro -%}


{#- Full metrics of a column let Iceberg skip files by it, and answer for its newest value without reading a file. By
    default Iceberg keeps metrics only for a table's first 100 columns, and only 16 characters of each.

    A MERGE into a history writes deletes and updates to new files, and does not rewrite data files. Its versions are
    partitioned by closed_by: a MERGE needs the open versions, and those closed ones whose row ended (closed_by is not
    `update`). In a full build each task writes to all partitions, which saves a shuffle. -#}
{%- macro _iceberg_properties(kind, renamed) -%}
    {#- Each commit writes a file of metadata that lists all snapshots. Without this, Iceberg keeps all of these and not
        only the newest (`write.metadata.previous-versions-max`, 100 by default). -#}
    {%- set properties = {'write.metadata.delete-after-commit.enabled': 'true'} -%}
    {%- if kind == 'staging' -%}
        {%- do properties.update({'write.metadata.metrics.column.change_seq': 'full'}) -%}
    {%- elif kind == 'history' -%}
        {%- do properties.update({
            'format-version': '2',
            'write.merge.mode': 'merge-on-read',
            'write.update.mode': 'merge-on-read',
            'write.delete.mode': 'merge-on-read',
            'write.distribution-mode': 'none',
            'write.merge.distribution-mode': 'hash',
            'write.spark.fanout.enabled': 'true',
        }) -%}
        {%- for name in ['is_current', 'valid_from_seq', 'valid_to_seq'] -%}
            {%- do properties.update({'write.metadata.metrics.column.' ~ renamed.get(name, name): 'full'}) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(properties) }}
{%- endmacro -%}


{%- macro _iceberg_name_properties(sql) -%}
    {{ return({}) }}
{%- endmacro -%}


{%- macro _iceberg_partitioning(kind, renamed) -%}
    {{ return(
        'partitioned by (' ~ afterimage._quote(renamed.get('closed_by', 'closed_by')) ~ ')' if kind == 'history' else none
    ) }}
{%- endmacro -%}


{%- macro _iceberg_before_add(relation, name, type) -%}{%- endmacro -%}


{#- A replaced table keeps its properties, and Iceberg refuses metrics of a column that is gone. -#}
{%- macro _iceberg_before_replace(existing_relation) -%}
    {%- set metrics = [] -%}
    {%- for name in afterimage._table_properties(existing_relation)
        if name.startswith('write.metadata.metrics.column.') -%}
        {%- do metrics.append(afterimage._literal(name)) -%}
    {%- endfor -%}
    {%- if metrics -%}
        {%- do run_query('alter table ' ~ existing_relation ~ ' unset tblproperties (' ~ metrics | join(', ') ~ ')') -%}
    {%- endif -%}
{%- endmacro -%}


{#- Counts the data files that runs have added since the last compaction, or, for a history, the runs that have added
    some. A run that deletes rows of many files also writes many delete files. They are worth a compaction only if a
    partition has lost so many rows that `rewrite_data_files` would rewrite one of its files. -#}
{%- macro _iceberg_compact_when_due(relation, kind, most, version) -%}
    {%- set compacted_at -%}
        (
            select coalesce(max(committed_at), timestamp '1970-01-01')
            from {{ relation }}.snapshots
            -- A compaction, or a build; both may have expired.
            where operation = 'replace' or parent_id is null
        )
    {%- endset -%}
    {%- set added = "if(committed_at > compacted_at, summary['added-data-files'], null)" -%}
    {%- set found = afterimage._summary(
        '(select *, ' ~ compacted_at ~ ' as compacted_at from ' ~ relation ~ '.snapshots)', {
        'added': 'count(' ~ added ~ ')' if kind == 'history' else 'coalesce(sum(cast(' ~ added ~ ' as bigint)), 0)',
        'delete_files': "coalesce(max_by(cast(summary['total-delete-files'] as bigint), committed_at), 0)",
    }) -%}
    {%- set is_due = found.added > most or (found.delete_files > most and afterimage._value(
        'select count(*) from ' ~ relation ~ '.partitions where position_delete_record_count > 0.3 * record_count'
    ) | int > 0) -%}
    {%- if is_due -%}
        {#- Only an Iceberg before 1.8 has so many delete files for one data file. A newer one also takes data files of
            which 30 percent of the rows are deleted (`delete-ratio-threshold`). -#}
        {%- do afterimage._compact_iceberg(relation, most_deletes=5) -%}
    {%- endif -%}
    {{ return(is_due) }}
{%- endmacro -%}


{#- Compacted first, a quiet table would lose the snapshot on which its readers stand: the newest, however old. -#}
{%- macro _iceberg_maintain(relation, retain_days) -%}
    {#- A table of an earlier release has not been told so. -#}
    {%- do afterimage._set_properties(relation, {'write.metadata.delete-after-commit.enabled': 'true'}) -%}
    {%- do afterimage._expire_iceberg(relation, afterimage._days_ago(retain_days)) -%}
    {%- do afterimage._compact_iceberg(relation) -%}
    {{ return('compacted; snapshots older than ' ~ retain_days ~ ' days are gone') }}
{%- endmacro -%}


{#- Asking for snapshots that are twice as old takes less than expiring. With `gc.enabled` false Iceberg refuses. -#}
{%- macro _iceberg_expire_when_due(relation, retain_days) -%}
    {%- set is_due = afterimage._value(
        'select count(*) from ' ~ relation ~ '.snapshots where committed_at < ' ~ afterimage._days_ago(2 * retain_days)
    ) | int > 0 and (afterimage._table_properties(relation).get('gc.enabled') or 'true') | lower == 'true' -%}
    {%- if is_due -%}
        {%- do afterimage._expire_iceberg(relation, afterimage._days_ago(retain_days)) -%}
    {%- endif -%}
    {{ return(is_due) }}
{%- endmacro -%}


{%- macro _iceberg_stored_type(type) -%}
    {{ return(modules.re.sub('\\b(tinyint|smallint)\\b', 'int', type)) }}
{%- endmacro -%}


{#- Tables of versions 1 and 2: https://iceberg.apache.org/spec/#schema-evolution -#}
{%- macro _iceberg_widens(built, found) -%}
    {{ return(
        afterimage._is_wider_decimal(built, found)
        or afterimage._iceberg_stored_type(built) ~ ' to ' ~ found in ['int to bigint', 'float to double']
    ) }}
{%- endmacro -%}


{%- macro _iceberg_widen_column(relation, column, type) -%}
    {%- do run_query('alter table ' ~ relation ~ ' alter column ' ~ column ~ ' type ' ~ type) -%}
{%- endmacro -%}


{#- Data files with `most_deletes` delete files or more are rewritten. -#}
{%- macro _compact_iceberg(relation, sizes="'min-input-files', '4'", most_deletes=1) -%}
    {%- do afterimage._call_procedure(
        'rewrite_data_files', relation,
        ", options => map('delete-file-threshold', '" ~ most_deletes ~ "', " ~ sizes ~ ')'
    ) -%}
    {%- do afterimage._call_procedure('rewrite_position_delete_files', relation) -%}
{%- endmacro -%}


{%- macro _expire_iceberg(relation, time) -%}
    {%- do afterimage._call_procedure('expire_snapshots', relation, ', retain_last => 1, older_than => ' ~ time) -%}
{%- endmacro -%}


{#- Calls one of Iceberg's procedures for a table. A catalog has procedures for its own tables only, and the schema may
    begin with another catalog than the session's. -#}
{%- macro _call_procedure(procedure, relation, arguments='') -%}
    {%- set first = relation.schema.split('.')[0] -%}
    {%- set is_catalog = '.' in relation.schema
        and run_query('set `spark.sql.catalog.' ~ first | replace('`', '') ~ '`')[0][1] != '<undefined>' -%}
    {%- do run_query(
        'call ' ~ (first ~ '.' if is_catalog else '') ~ 'system.' ~ procedure ~ '(table => '
        ~ afterimage._literal(relation | string) ~ arguments ~ ')'
    ) -%}
{%- endmacro -%}
