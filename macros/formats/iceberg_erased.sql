{#- What an erasure asks of an Iceberg table: to remove what it no longer shows, and to name what is still there. -#}


{#- A tag or a branch keeps its snapshot's files. The manifests of a commit list the files that it removed, with bounds
    of values, until the next one. Only files with rows that are marked as deleted are rewritten. -#}
{%- macro _iceberg_forget(relation) -%}
    {%- set refs = run_query('select name from ' ~ relation ~ ".refs where name <> 'main'").columns[0].values() -%}
    {%- if refs -%}
        {%- do exceptions.raise_compiler_error(
            'erase: ' ~ relation ~ ' has tags or branches, which keep what it held. Run `alter table … drop tag`, or `drop'
            ~ ' branch`, and the command again. If `afterimage land` was killed and left one, run that again instead: the'
            ~ ' branch has its rows. Got: ' ~ refs | join(', ')
        ) -%}
    {%- endif -%}
    {%- do afterimage._compact_iceberg(
        relation, "'min-file-size-bytes', '0', 'max-file-size-bytes', '9223372036854775807'"
    ) -%}
    {%- do afterimage._call_procedure('rewrite_manifests', relation) -%}
    {#- A manifest that is alone is left as it is. Of a table without rows any commit leaves it out. Equality deletes go
        with a commit that finds no older data file, and their manifest with the next one. -#}
    {%- set commits = 2 if afterimage._equality_deletes(relation) else 1 -%}
    {%- if commits > 1 or afterimage._value('select sum(deleted_data_files_count) from ' ~ relation ~ '.manifests') -%}
        {%- do afterimage._compact_iceberg(
            relation, "'rewrite-all', 'true', 'use-starting-sequence-number', 'false'"
        ) -%}
        {%- for _ in range(commits) -%}
            {%- do run_query('insert into ' ~ relation ~ ' select * from ' ~ relation ~ ' where false') -%}
        {%- endfor -%}
        {%- do afterimage._call_procedure('rewrite_manifests', relation) -%}
    {%- endif -%}
    {%- do afterimage._expire_iceberg(relation, "timestamp '2100-01-01'") -%}
{%- endmacro -%}


{#- Files of a raw table that hold the keys of deleted rows, as Flink and sinks that upsert write them. -#}
{%- macro _equality_deletes(relation) -%}
    {{ return(run_query(
        'select file_path from ' ~ relation ~ '.delete_files where content = 2 limit 10'
    ).columns[0].values() | list) }}
{%- endmacro -%}


{#- Spark lists the files in the table's folders, without reading them; the metadata tables have what belongs to it.
    Manifests have bounds of values. Raises an error if the table has equality deletes: these belong to it. -#}
{%- macro _iceberg_files_left(relation) -%}
    {%- set deletes = afterimage._equality_deletes(relation) -%}
    {%- if deletes -%}
        {%- do exceptions.raise_compiler_error(
            'erase: ' ~ relation ~ ' has files of equality deletes, which hold keys of deleted rows: a writer has just committed'
            ~ ' them. Run the command again once it has stopped. Got: ' ~ deletes | join(', ')
        ) -%}
    {%- endif -%}
    {%- set properties = afterimage._table_properties(relation) -%}
    {%- set folders = [properties.get('write.data.path'), properties.get('write.metadata.path')] -%}
    {%- for row in run_query('describe table extended ' ~ relation).rows if row[0] == 'Location' -%}
        {%- do folders.append(row[1]) -%}
    {%- endfor -%}
    {%- set path = "regexp_replace({column}, '^[A-Za-z0-9+.-]+:(//[^/]*)?', '')" -%}
    {%- set files = [] -%}
    {%- for folder in folders if folder -%}
        {%- do run_query(
            'create or replace temporary view afterimage_files using binaryFile options (path '
            ~ afterimage._literal(folder) ~ ", recursiveFileLookup 'true')"
        ) -%}
        {%- set found = run_query(
            'select path from afterimage_files where ' ~ path.format(column='path') ~ ' not in (select '
            ~ path.format(column='file_path') ~ ' from ' ~ relation ~ '.files union all select '
            ~ path.format(column='path') ~ ' from ' ~ relation ~ '.all_manifests union all select '
            ~ path.format(column='manifest_list') ~ ' from ' ~ relation
            ~ ".snapshots) and (path like '%.avro' or path not rlike '/metadata/[^/]*$' and path not like '%.metadata.json%') limit 10"
        ) -%}
        {%- do files.extend(found.columns[0].values()) -%}
        {%- do run_query('drop view afterimage_files') -%}
    {%- endfor -%}
    {{ return(files) }}
{%- endmacro -%}
