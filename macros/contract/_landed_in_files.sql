{#- What has landed in a table of files: the rows of the files that were written since, and in the hour before, because
    a file may come to light some time after it was written. What is remembered is the time of the newest file, with a
    sum over the files of the hour before it, by which the next run knows that no others have come. -#}
{%- macro _landed_in_files(relation) -%}
    {%- set read = afterimage._read_before(relation | string) if afterimage._is_incremental() else {} -%}
    {%- set before = fromjson(read.state) if read.get('state') else none -%}
    {%- set hour = 3600000000 -%}
    {%- set start = (before.newest if before else read.at) | int - hour if before or read.get('at') else none -%}
    {%- set found = afterimage._files_since(relation, start) -%}
    {%- if before and found.files == before.files -%}
        {{ return({'kind': 'nothing', 'state': read.state, 'is_remembered': true, 'count': 0}) }}
    {%- elif found.newest is none -%}
        {{ return({'kind': 'nothing' if afterimage._is_incremental() else 'all', 'count': 0}) }}
    {%- endif -%}
    {%- set landed = {
        'state': tojson({
            'newest': found.newest,
            'files': afterimage._files_since(relation, found.newest | int - hour).files,
        }),
        'reason': 'nothing says what of it was read before' if afterimage._is_incremental() else none,
    } -%}
    {%- if start is not none -%}
        {%- do landed.update({
            'kind': 'new',
            'landed': '(select * from ' ~ relation ~ ' where ' ~ afterimage._is_written_since(start) ~ ')',
            'reason': none,
        }) -%}
    {%- endif -%}
    {{ return(landed) }}
{%- endmacro -%}


{#- The time of the newest file, in microseconds, and a text that is another one where the files written since a moment
    are others. -#}
{%- macro _files_since(relation, start) -%}
    {%- set query -%}
        select
            cast(max(unix_micros(modified_at)) as string) as newest,
            concat_ws(' ', count(*), sum(cast(xxhash64(path, size, modified_at) as decimal(20, 0)))) as files

        from (
            select distinct
                _metadata.file_path as path,
                _metadata.file_size as size,
                _metadata.file_modification_time as modified_at

            from {{ relation }}
            {%- if start is not none %}
            where {{ afterimage._is_written_since(start) }}
            {%- endif %}
        ) as written
    {%- endset -%}
    {%- set row = run_query(query).rows[0] -%}
    {{ return({'newest': row[0], 'files': row[1]}) }}
{%- endmacro -%}


{%- macro _is_written_since(start) -%}
    {{ return('_metadata.file_modification_time >= timestamp_micros(' ~ start ~ ')') }}
{%- endmacro -%}
