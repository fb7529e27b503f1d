{#- The CTEs from the landed rows to `distinct_rows`: each once, judged, with its place, the time of its commit, and the
    `change_group` of those that may be one change. -#}
{%- macro _sqlserver_rows(instances, sides, columns, common, unique_key, time_zone) -%}
{%- set by_row = 'partition by change_group, operation, row_id' -%}
source_rows as (

    {%- for instance in instances %}
    {{- '\n    union all' if not loop.first }}
    {%- set side = sides[loop.index0] %}
    select
        {{ side.place }} as start_lsn,
        {{ instance.seqval }} as seqval,
        {{ instance.command }} as command_id,
        {{ side.has_place }} as has_place,
        trim(cast(`__$operation` as string)) as operation,
        {{ instance.mask }} as update_mask,
        {{ not loop.first }} as is_earlier,
        {{ afterimage._struct(columns) }} as image

    from (
        select
            *
            {%- for column in columns if column not in instance.columns %},
            cast(null as {{ instances[0].types[column] }}) as {{ afterimage._quote(column) }}
            {%- endfor %}

        from {{ side.rows }}
    ) as landed
    where {{ side.condition or 'true' }}
    {%- endfor %}

),

judged as (

    select
        source_rows.*,
        {{ 'commits.committed_at' if sides[-1].committed_at else 'cast(null as timestamp)' }} as changed_at,
        case
            when not has_place
                then concat_ws(' ', 'no place in the log (start_lsn, seqval, command_id):', start_lsn, seqval, command_id)
            when coalesce(operation not in ('1', '2', '3', '4'), true)
                then concat('unknown operation: __$operation ', coalesce(operation, 'NULL'))
            when {{ afterimage._lacks_its_key(unique_key) }} then {{ afterimage._null_in_the_key(unique_key) }}
        end as row_reason,
        if(has_place, concat(start_lsn, lpad(coalesce(command_id, '0'), 10, '0'), seqval), '') as row_place,
        -- The delete and the insert that tell an update share a seqval, but not always a command.
        if(
            row_reason is null,
            concat(start_lsn, seqval),
            concat('rejected-', md5(
                {{ afterimage._exact_json('struct(start_lsn, seqval, command_id, operation, image)') }}
            ))
        ) as change_group,
        {{ afterimage._struct(unique_key, 'image.') }} as own_key,
        -- By what both instances have, so that the rows of a change which both of them tell are copies of each other.
        {{ afterimage._hash_of_values(afterimage._quoted(common, 'image.')) | indent(8) }} as row_id

    from source_rows
    {%- if sides[-1].committed_at %}
    left outer join (
        select
            {{ sides[-1].place }} as commit_lsn,
            max({{ afterimage._in_utc(sides[-1].committed_at, time_zone) }}) as committed_at

        from {{ sides[-1].rows }}
        group by commit_lsn
    ) as commits
        on source_rows.start_lsn = commits.commit_lsn
    {%- endif %}
    distribute by change_group

),

distinct_rows as (

    select
        *,
        operation in ('1', '3') as is_before,
        count(*) over (partition by change_group) as rows_in_group

    from (
        select
            *,
            row_number() over ({{ by_row }} order by is_earlier, row_place desc, update_mask) as copy_number,
            count(*) over ({{ by_row }}) as copies

        from judged
    ) as counted
    where copy_number = 1

)
{%- endmacro -%}
