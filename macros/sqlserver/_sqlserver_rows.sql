{#- The CTEs from the landed rows to `judged_rows`: what each row is or why it cannot be read, its place, its commit's
    time, and the `change_group` of the rows that may be one change. -#}
{%- macro _sqlserver_rows(instances, commits, sides, columns, common, unique_key, time_zone) -%}
source_rows as (

    {%- for instance in instances %}
    {{- '\n    union all' if not loop.first }}
    {%- set mask = instance.header['__$update_mask'] %}
    select
        {{ instance.side.place }} as start_lsn,
        {{ instance.seqval }} as seqval,
        {{ instance.command }} as command_id,
        {{ instance.side.has_place }} as has_place,
        trim(cast(`__$operation` as string)) as operation,
        {{ afterimage._hex_digits(mask) if mask else 'cast(null as string)' }} as update_mask,
        {{ not loop.first }} as is_earlier,
        {{ afterimage._struct(columns) }} as image

    from (
        select
            *
            {%- for column in columns if column not in instance.columns %},
            cast(null as {{ instances[0].types[column] }}) as {{ afterimage._quote(column) }}
            {%- endfor %}

        from {{ sides[loop.index0].rows }}
    ) as landed
    where {{ sides[loop.index0].condition or 'true' }}
    {%- endfor %}

),

judged_rows as (

    select
        source_rows.*,
        {{ 'commits.committed_at' if commits else 'cast(null as timestamp)' }} as changed_at,
        operation in ('1', '3') as is_before,
        decode(operation, '1', 'delete', '2', 'insert', '3', 'update', '4', 'update', 'unknown') as row_kind,
        case
            when not has_place
                then concat_ws(' ', 'no place in the log (start_lsn, seqval, command):', start_lsn, seqval, command_id)
            when row_kind = 'unknown' then concat('unknown operation: ', coalesce(operation, 'NULL'))
            when {{ afterimage._has_null_key(unique_key) }} then {{ afterimage._null_key_reason(unique_key) }}
        end as row_reason,
        -- The later instance may bring the command: a change that was read may move to the front, but not back.
        if(has_place, concat(start_lsn, lpad(coalesce(command_id, '9999999999'), 10, '0'), seqval), '') as row_place,
        -- The delete and the insert of an update share a seqval, but not always a command.
        if(row_reason is null, concat(start_lsn, seqval), concat('rejected-', md5(
            {{ afterimage._exact_json('struct(start_lsn, seqval, command_id, operation, image)') }}
        ))) as change_group,
        {{ afterimage._struct(unique_key, 'image.') }} as own_key,
        -- Only columns that both instances have count, so that the rows of one change in both are copies.
        {{ afterimage._hash_of_values(afterimage._quoted(common, 'image.')) | indent(8) }} as row_id

    from source_rows
    {%- if commits %}
    left outer join (
        select
            {{ commits.side.place }} as commit_lsn,
            max({{ afterimage._in_utc(
                afterimage._landed_time('tran_end_time', commits.header.tran_end_time.type), time_zone
            ) }}) as committed_at

        from {{ sides[-1].rows }}
        group by commit_lsn
    ) as commits
        on source_rows.start_lsn = commits.commit_lsn
    {%- endif %}
    -- All windows behind this one are by group, or by group and more, so one exchange serves them all.
    distribute by change_group

)
{%- endmacro -%}
