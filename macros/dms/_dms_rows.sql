{#- The CTEs from the landed rows to `judged_rows`: what each row is or why it cannot be read, its place and time.
    Copies of a row share `change_group`, `kind` and `row_id`. -#}
{%- macro _dms_rows(side, layout) -%}
{%- set images = layout.image_of.values() | list -%}
{%- set no_place = 'no place in the order (' ~ layout.order_by | join(', ') ~ '): ' -%}
source_rows as (

    select
        {{ layout.operation }} as operation,
        {{ layout.is_load }} as is_load,
        {{ layout.order.place }} as landed_place,
        {{ layout.order.shown }} as order_values,
        {{ layout.source_time }} as source_time,
        {{ layout.order.time | indent(8) }} as time_of_place,
        {{ afterimage._struct(layout.columns) }} as image,
        {{ afterimage._before_image(layout.columns, layout.unique_key, layout.types, layout.image_of) }}
            as landed_before,
        {{ afterimage._hash_of_values(afterimage._quoted(layout.columns + images)) | indent(8) }} as row_id

    from {{ side.rows }}
    where {{ side.condition or 'true' }}

),

judged_rows as (

    select
        *,
        if(is_load, 'load', decode(operation, 'I', 'insert', 'U', 'update', 'D', 'delete', 'unknown')) as kind,
        case
            when kind = 'unknown' then concat('unknown operation: ', operation)
            when not is_load and landed_place is null
                then concat({{ afterimage._literal(no_place) }}, order_values)
            when {{ afterimage._has_null_key(layout.unique_key) }}
                then {{ afterimage._null_key_reason(layout.unique_key) }}
        end as row_reason,
        if(is_load, '', coalesce(landed_place, '')) as place,
        {{ afterimage._struct(layout.unique_key, 'image.') }} as own_key,
        case
            when row_reason is not null
                then concat('rejected-', md5({{ afterimage._exact_json('struct(operation, order_values, image)') }}))
            when is_load then concat('load-', {{ afterimage._key_hash('own_key') }})
            else place
        end as change_group

    from source_rows
    -- All windows behind this one are by group and more, so one exchange serves them all.
    distribute by change_group

)
{%- endmacro -%}
