{#- Tables of files without versions: Parquet, ORC, CSV, JSON, Avro. Our materializations rebuild such a table in
    every run. Hudi is here too: it has MERGE, and nothing else of it is used. -#}


{%- macro _files_traits() -%}
    {{ return({
        'merges': afterimage._model_format() == 'hudi', 'replaces': false, 'keeps_properties': false, 'scratch': 'parquet'
    }) }}
{%- endmacro -%}


{%- macro _files_version(relation) -%}
    {{ return(none) }}
{%- endmacro -%}


{%- macro _files_is_at_version(relation, version) -%}
true
{%- endmacro -%}


{%- macro _files_refuse_if_overtaken(relation, version, began_with) -%}
{%- endmacro -%}


{%- macro _files_is_rolled_back(relation, version, present) -%}
    {{ return(false) }}
{%- endmacro -%}


{%- macro _files_properties(kind, renamed) -%}
    {{ return({}) }}
{%- endmacro -%}


{%- macro _files_name_properties(sql) -%}
    {{ return({}) }}
{%- endmacro -%}


{%- macro _files_partitioning(kind, renamed) -%}
    {{ return(none) }}
{%- endmacro -%}


{%- macro _files_before_replace(existing_relation) -%}
{%- endmacro -%}


{%- macro _files_before_add(relation, name, type) -%}
{%- endmacro -%}


{%- macro _files_compact_when_due(relation, kind, most, version) -%}
    {{ return(false) }}
{%- endmacro -%}


{%- macro _files_forget(relation) -%}
{%- endmacro -%}


{%- macro _files_files_left(relation) -%}
    {{ return([]) }}
{%- endmacro -%}


{%- macro _files_expire_when_due(relation, retain_days) -%}
    {{ return(false) }}
{%- endmacro -%}


{%- macro _files_maintain(relation, retain_days) -%}
    {{ return('nothing to maintain: it is no table of Iceberg or Delta') }}
{%- endmacro -%}


{#- Landed rows of a table of files: those of files written since the last run, and of files from the hour before
    that are not known yet, because a file may become visible some time after it was written. The state holds the
    time of the newest file, and the files of the hour before it. If they are too many it holds a digest of them: it
    says whether there is another one, and then that hour is read again. Spark skips files by conditions on
    `_metadata`, so a run without news only lists them. -#}
{%- macro _files_landed(side, read, is_incremental) -%}
    {%- set relation = side.relation -%}
    {#- Of files that are read by their path, `_relation_columns` refuses a column that hides them. -#}
    {%- if not afterimage._is_read_by_path(relation) -%}
        {#- A long-lived session would use the file list from when it first read the table. -#}
        {%- do run_query('refresh table ' ~ relation) -%}
        {%- if afterimage._hides_files(afterimage._relation_columns(relation)) -%}
            {{ return(afterimage._landed(relation, 'all', reason='it has a column `_metadata`')) }}
        {%- endif -%}
    {%- endif -%}
    {#- A snapshot is remembered if the table of this name was an Iceberg table before. -#}
    {%- set is_of_files = (read.get('state') or '').startswith('{') -%}
    {%- set before = fromjson(read.state) if is_of_files else {'newest': read.get('at'), 'files': none} -%}
    {%- set now = (run_started_at.timestamp() * 1000000) | int -%}
    {%- set is_set_back = (before.newest or 0) | int > now + 1800000000 -%}
    {%- if is_set_back -%}
        {%- do before.update({'newest': none, 'files': none, 'digest': none}) -%}
    {%- endif -%}
    {%- set unread = afterimage._is_written_since(before.newest, before.files) -%}
    {%- set listing = afterimage._files_listing(relation) -%}
    {%- set found = afterimage._files_of(listing, unread) -%}
    {%- if found.newest is none or (before.digest and before.digest == found.digest) -%}
        {{ return(afterimage._landed(
            relation, 'nothing' if is_incremental else 'all', state=read.get('state'), is_remembered=true, count=0
        )) }}
    {%- endif -%}
    {#- A file from the future must not hide those that are written until then. -#}
    {%- set newest = [[found.newest | int, (before.newest or 0) | int] | max, now] | min -%}
    {%- set known = afterimage._files_of(listing, afterimage._is_written_since(newest)) -%}
    {%- set state = tojson({'newest': newest, 'files': known.files, 'digest': known.digest}) -%}
    {%- if before.newest -%}
        {#- Spark lists the files of a path again in each statement. So a statement names the files of the state: one
            that lands in between may hold a part of what they hold. If there are too many, they have no names. -#}
        {%- set are_named = found.files is not none and known.files is not none -%}
        {%- set names = (found.files ~ ' ' ~ known.files).split() | unique if are_named else [] -%}
        {%- set new = names | reject('in', (before.files or '').split()) | list -%}
        {%- set is_new = afterimage._file_mark() ~ " in ('" ~ new | join("', '") ~ "')" if are_named else unread -%}
        {{ return(afterimage._landed(
            relation, 'new', landed='(select * from ' ~ relation ~ ' as landed_files where ' ~ is_new ~ ')',
            state=state, may_be_gone=not are_named
        )) }}
    {%- endif -%}
    {#- The first run, or one without a record, which says so. After the clock was set back by more than half an hour,
        files would be older than what is remembered. -#}
    {{ return(afterimage._landed(
        relation, 'all', state=state, reason='the clock was set back' if is_set_back else read.get('reason')
    )) }}
{%- endmacro -%}


{#- The time of the newest file in microseconds, and an identifier for each file if there are at most 200; of more
    their number and a digest in which their order does not count. -#}
{%- macro _files_of(relation, condition) -%}
    {%- set query -%}
        select
            cast(max(unix_micros(modified_at)) as string) as newest,
            if(count(*) <= 200, concat_ws(' ', collect_list(hex(number))), null) as files,
            if(count(*) > 200, concat(count(*), ' ', hex(bit_xor(number))), null) as digest

        from (
            select distinct
                {{ afterimage._file_number() }} as number,
                landed_files._metadata.file_modification_time as modified_at

            from {{ relation }} as landed_files
            where {{ condition }}
        ) as written
    {%- endset -%}
    {%- set row = run_query(query).rows[0] -%}
    {{ return({'newest': row[0], 'files': row[1], 'digest': row[2]}) }}
{%- endmacro -%}


{#- The condition that a file of `landed_files` was written at most an hour before `moment`, or later, and is not one
    of `files`. The alias is needed: within a subquery Spark may take a bare `_metadata` for that of the outer query. -#}
{%- macro _is_written_since(moment, files=none) -%}
    {%- if moment is none -%}
        {{ return('true') }}
    {%- endif -%}
    {%- set hour = 3600000000 -%}
    {%- set is_written =
        'landed_files._metadata.file_modification_time >= timestamp_micros(' ~ (moment | int - hour) ~ ')'
    -%}
    {%- if not files -%}
        {{ return(is_written) }}
    {%- endif -%}
    {{ return(is_written ~ ' and ' ~ afterimage._file_mark() ~ " not in ('" ~ files.split() | join("', '") ~ "')") }}
{%- endmacro -%}


{%- macro _file_mark() -%}
    {{ return('hex(' ~ afterimage._file_number() ~ ')') }}
{%- endmacro -%}


{%- macro _file_number() -%}
    {%- set metadata = 'landed_files._metadata' -%}
    {{ return(
        'xxhash64(' ~ metadata ~ '.file_path, ' ~ metadata ~ '.file_size, ' ~ metadata ~ '.file_modification_time)'
    ) }}
{%- endmacro -%}


{#- What lists the files of a relation. Spark's source of binary files opens none of a path, has those without a row
    too, and needs no schema, which other formats would have to look for. -#}
{%- macro _files_listing(relation) -%}
    {%- set listed = relation | string -%}
    {{ return('binaryFile' ~ listed[relation.schema | length:] if afterimage._is_read_by_path(relation) else listed) }}
{%- endmacro -%}


{%- macro _files_last_landed(relation) -%}
    {%- set listing = afterimage._files_listing(relation) -%}
    {{ return('select max(_metadata.file_modification_time) as landed_at from ' ~ listing) }}
{%- endmacro -%}


{#- Parquet stores small whole numbers as int32. -#}
{%- macro _files_stored_type(type) -%}
    {{ return(modules.re.sub('\\b(tinyint|smallint)\\b', 'int', type)) }}
{%- endmacro -%}


{%- macro _files_widens(built, found) -%}
    {{ return(false) }}
{%- endmacro -%}


{%- macro _files_widen_column(relation, column, type) -%}
{%- endmacro -%}
