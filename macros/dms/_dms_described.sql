{#- The CTE `described`, the rows that `_finish` takes. -#}
{%- macro _dms_described(layout) -%}
{%- set absent = afterimage._each(layout.sparse, 'if(image.{column} is null, {name}, null)') -%}
{%- set unknown_time = 'changed_at is unknown: ' ~ (
    'neither ' ~ layout.time ~ ' nor the order has it' if layout.time else '`time` names no column, and the order has none'
) -%}
described as (

    select
        *,
        if(
            row_reason is null and not is_load,
            concat(place, '-', upper(left(kind, 1)), lpad(lower(hex(row_id)), 16, '0')),
            change_group
        ) as identity,
        -- A task may write before-images for only some rows, or only for updates.
        if(
            kind = 'update' and not {{ afterimage._has_null_key(layout.unique_key, 'landed_before') }}, landed_before, null
        ) as before_image,
        {%- if absent %}
        if(
            kind = 'update', nullif(array_compact(array({{ absent | join(', ') }})), cast(array() as array<string>)), null
        ) as absent_columns,
        {%- endif %}
        if(is_load, source_time, coalesce(source_time, time_of_place)) as changed_at,
        row_reason as reject_reason,
        if(
            place = '' or source_time is not null,
            null,
            case
                when time_of_place is null then array({{ afterimage._literal(unknown_time) }})
                {%- if layout.time %}
                else array('changed_at is taken from change_seq')
                {%- endif %}
            end
        ) as warnings,
        cast(copies as int) as source_rows

    from distinct_rows

)
{%- endmacro -%}
