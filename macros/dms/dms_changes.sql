{#- The files that AWS Database Migration Service writes for a table (full load and changes) -> change contract.
    Arguments: dms_changes.yml. -#}
{%- macro dms_changes(
    relation,
    unique_key,
    columns=none,
    operation='Op',
    order_by=none,
    time=none,
    before_prefix=none,
    null_is_absent=none
) -%}
    {%- set layout = afterimage._dms_layout(
        relation, unique_key, columns, operation, order_by, time, before_prefix, null_is_absent
    ) -%}
    {%- if layout is none -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set new_shape = afterimage._check_drift('dms_changes', relation, layout.columns) -%}
    {#- Changes of one place are read together. Rows of a full load and rows without a place are read with those of
        their key. -#}
    {%- set has_place = '(not ' ~ layout.is_load ~ ' and ' ~ layout.order.place ~ ' is not null)' -%}
    {%- set side = {
        'relation': relation,
        'place': layout.order.place,
        'bounds': layout.order.bounds,
        'column': layout.order.column,
        'latest': layout.order.latest,
        'group': 'if(' ~ has_place ~ ', ' ~ layout.order.place ~ ', cast('
            ~ afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) ~ ' as string))',
        'has_place': has_place,
        'reach': 8,
        'time': 'coalesce(' ~ layout.source_time ~ ', ' ~ layout.order.time ~ ')',
        'keeps': 1000,
    } -%}
    {%- set intake = afterimage._intake(
        'dms_changes', layout.unique_key, [side], new_shape,
        made_by={
            'order_by': layout.order_by | map('lower') | join(', '),
            'form of order_by': layout.order.forms | join(', '),
        } if layout.order_by else {}
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif %}
with

{{ afterimage._dms_rows(intake.sides[0], layout) }},

{#- A load that lands again has another time. It keeps the first, but the latest decides which load of a key is the
    last. Where changes share a place, one with the values of an earlier one is a copy only if it has the same time. -#}
{{ afterimage._distinct_rows(
    'classified_rows',
    by='change_group, kind, row_id' ~ ('' if layout.order.has_sequence else ", if(kind = 'load', null, source_time)"),
    first='source_time asc nulls last',
    time='source_time'
) }},

{{ afterimage._dms_described(layout) }},

{#- If a key has several loads, the latest wins. It gets the change_id without a number, so it replaces an earlier load
    even if the file of that one is gone. Of changes that share a place, the later one comes last. -#}
{%- set turns = "if(kind = 'load', last_time, null) desc nulls last, source_time asc nulls first, row_id asc" %}
{{ afterimage._finish(
    intake, layout.columns, layout.types, layout.unique_key,
    lacks=['changed_columns', 'transaction_id', 'changed_by'] + ([] if null_is_absent else ['absent_columns']),
    ties={'identity_order': turns, 'order': turns},
    known={
        'unchanged_if': afterimage._is_older_load(intake, layout.columns, layout.types),
        'kept': afterimage._keep_first_time(intake, layout.columns, layout.types),
        'carried': ['last_time'],
    },
    old_key='before_image is not null' if layout.image_of else none
) }}
{%- endmacro -%}


{#- The CTEs from the landed rows to `classified_rows`: what each row is or why it cannot be read, its place and time.
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
        {{ layout.has_image }} as has_image,
        {{ afterimage._hash_of_values(
            afterimage._hashable_columns(layout.columns + images, layout.types)
        ) | indent(8) }} as row_id

    from {{ side.rows }}
    where {{ side.condition or 'true' }}

),

classified_rows as (

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
        {{ afterimage._key_hash('own_key') }} as key_hash,
        case
            when row_reason is not null
                then concat('rejected-', md5({{ afterimage._exact_json(
                    'struct(operation, order_values, ' ~ afterimage._row_to_name('image', layout.columns, layout.types)
                    ~ ' as image)'
                ) }}))
            when is_load then concat('load-', key_hash)
            else place
        end as change_group

    from source_rows
    -- All windows behind this one are by group and more, so one exchange serves them all.
    distribute by change_group

)
{%- endmacro -%}


{#- The CTE `described`, the rows that `_finish` takes. -#}
{%- macro _dms_described(layout) -%}
{%- set absent = afterimage._each(layout.sparse, 'if(image.{column} is null, {name}, null)') -%}
{%- set unknown_time = 'changed_at is unknown: ' ~ (
    'neither ' ~ layout.time ~ ' nor the order has it' if layout.time else '`time` names no column, and the order has none'
) -%}
described as (

    select
        *,
        -- Made of the key and no other value: a row that is changed in place, or gains a column, is still the same change.
        if(
            row_reason is null and not is_load, concat(place, '-', upper(left(kind, 1)), '-', key_hash), change_group
        ) as identity,
        -- A task may write before-images for only some rows, only for updates, or only of what changed.
        if(
            kind = 'update' and has_image,
            {{ afterimage._struct(
                layout.columns, 'landed_before.', layout.unique_key, 'coalesce(landed_before.{column}, image.{column})'
            ) }},
            null
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
