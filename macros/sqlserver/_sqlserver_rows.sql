{#- The CTEs from the landed rows to `distinct_rows`: each once, judged, with its place, the time of its commit, and the
    `change_group` of those that may be one change. -#}
{%- macro _sqlserver_rows(tables, sides, columns, unique_key, time_zone) -%}
{%- set by_row = 'partition by change_group, operation, row_id' -%}
{%- set instances = tables | selectattr('is_instance') | list -%}
source_rows as (

    {%- for table in instances %}
    {{- '\n    union all' if not loop.first }}
    select
        {%- for name in ['start_lsn', 'seqval', 'command_id', 'operation', 'update_mask'] %}
        {{ table.value['__$' ~ name] }} as {{ name }},
        {%- endfor %}
        {{ table.side.has_place }} as has_place,
        {{ not loop.first }} as is_earlier,
        {{ afterimage._struct(columns) }} as image

    from (
        select
            *
            {%- for column in columns if column not in table.data %},
            cast(null as {{ instances[0].types[column] }}) as {{ afterimage._quote(column) }}
            {%- endfor %}

        from {{ sides[loop.index0].rows }}
        where {{ sides[loop.index0].condition or 'true' }}
    ) as landed
    {%- endfor %}

),

judged as (

    select
        *,
        case
            when not has_place
                then concat_ws(' ', 'no place in the log (start_lsn, seqval, command_id):', start_lsn, seqval, command_id)
            when coalesce(operation not in ('1', '2', '3', '4'), true)
                then concat('unknown operation: __$operation ', coalesce(operation, 'NULL'))
            when {{ afterimage._lacks_its_key(unique_key) }} then {{ afterimage._null_in_the_key(unique_key) }}
        end as row_reason,
        if(has_place, concat(start_lsn, lpad(coalesce(command_id, '0'), 10, '0'), seqval), '') as row_place,
        {{ afterimage._struct(unique_key, 'image.') }} as key,
        -- By what both instances have, so that the rows of a change which both of them tell are copies of each other.
        {{ afterimage._hash_of_values(
            afterimage._quoted(columns | select('in', instances[-1].data), 'image.')
        ) | indent(8) }} as row_id

    from source_rows

),

-- The delete and the insert that tell an update share a seqval, but not always a command.
grouped as (

    select
        judged.*,
        if(row_reason is null, concat(judged.start_lsn, seqval), concat('rejected-', md5(
            {{ afterimage._exact_json('struct(judged.start_lsn, seqval, command_id, operation, image)') }}
        ))) as change_group,
        {{ 'cast(null as timestamp)' if tables[-1].is_instance else 'commits.committed_at' }} as changed_at

    from judged
    {%- for table in tables if not table.is_instance %}
    left outer join (
        select
            {{ table.value.start_lsn }} as start_lsn,
            max({{ afterimage._in_utc(table.value.tran_end_time, time_zone) }}) as committed_at

        from {{ sides[-1].rows }}
        group by 1
    ) as commits
        on judged.start_lsn = commits.start_lsn
    {%- endfor %}
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

        from grouped
    ) as counted
    where copy_number = 1

)
{%- endmacro -%}
