{#- The CTEs from `paired` and `tracked_rows` to `tracked_changes`: each change with its row of the tracking table. -#}
{%- macro _openedge_joined_tracking(layout) -%}
tracked as (

    select
        *,
        count(*) over (partition by change_group) as copies,
        row_number() over (
            partition by change_group order by operation desc, time asc nulls last, row_hash asc
        ) as copy_number

    from tracked_rows
    {%- if layout.tracking_relation is none %}
    where has_seq
    {%- endif %}

),

field_maps as (

    {{ afterimage._openedge_field_maps(layout) | indent(4) }}

),

-- Some tracking rows have no change row by design: policy levels 0 and 1, schema changes, partitions.
tracked_changes as (

    select
        changes.kind is not null as has_change_row,
        coalesce(changes.is_orphan, false) as is_orphan,
        coalesce(changes.change_group, tracked.change_group) as change_group,
        coalesce(changes.has_seq, tracked.has_seq) as has_seq,
        coalesce(changes.sequence, tracked.sequence) as sequence,
        coalesce(changes.operation, tracked.operation) as operation,
        coalesce(changes.kind, if(tracked.kind = 'before_image', 'update', tracked.kind)) as kind,
        coalesce(changes.time, tracked.time) as changed_at,
        coalesce(changes.transaction_id, tracked.transaction_id) as transaction_id,
        coalesce(changes.row_hash, tracked.row_hash) as row_hash,
        changes.reject_reason,
        changes.image,
        changes.before_image,
        changes.before_reason,
        coalesce(changes.row_count, 0) as row_count,
        changes.has_forms,
        coalesce(changes.has_before_image, false) as has_before_image,
        coalesce(changes.is_split, false) as is_split,
        coalesce(changes.before_is_split, false) as before_is_split,
        tracked.kind as tracked_kind,
        tracked.operation as tracked_operation,
        tracked.field_map,
        tracked.tracking,
        {{ 'coalesce(tracked.copies, 0)' if layout.tracking_relation else '0' }} as tracking_copies,
        field_maps.flagged_columns,
        field_maps.unknown_fields,
        field_maps.is_decoded

    from paired as changes
    full outer join (select * from tracked where copy_number = 1) as tracked
        on changes.change_group = tracked.change_group
    left outer join field_maps
        on tracked.field_map = field_maps.field_map

)
{%- endmacro -%}


{#- Decodes each distinct field map once. A text of 0 and 1 is bits; other text is the names from the SQL helper
    CDC_get_changed_columns. -#}
{%- macro _openedge_field_maps(layout) -%}
    {%- set encoding = layout.field_map_encoding -%}
    {%- set is_binary = layout.field_map_type == 'binary' -%}
    {%- set bits = encoding or ('bytes' if is_binary else 'bits') -%}
    {%- set all_names = [] -%}
    {%- for field in layout.fields -%}
        {%- do all_names.append(field.name | lower | replace('-', '_')) -%}
    {%- endfor -%}
select
    field_map,
    if(
        positions is not null,
        cast(filter(positions, k -> k > {{ layout.fields | map(attribute='number') | max }}) as array<string>),
        array_except(field_names, {{ afterimage._string_array(all_names) }})
    ) as unknown_fields,
    if(
        positions is null and field_names is null,
        null,
        -- A map that names unknown fields alone counts as none: it may have been decoded wrongly.
        nullif(
            flatten(array_compact(array(
                {%- for field in layout.fields if field.columns %}
                if(
                    array_contains(positions, {{ field.number }})
                    or array_contains(field_names, {{ afterimage._literal(field.name | lower | replace('-', '_')) }}),
                    {{ afterimage._string_array(field.columns) }},
                    null
                ){{ ',' if not loop.last }}
                {%- endfor %}
            ))),
            if(
                size(unknown_fields) > 0 and size(unknown_fields)
                = size(array_distinct(coalesce(cast(positions as array<string>), field_names))),
                cast(array() as array<string>),
                null
            )
        )
    ) as flagged_columns,
    positions is not null or field_names is not null as is_decoded

from (
    select
        field_map,
        positions,
        {%- if encoding == 'names' or (encoding is none and not is_binary) %}
        if(
            positions is null,
            transform(
                filter(split(field_map, ';'), name -> trim(name) <> ''),
                name -> lower(replace(trim(name), '-', '_'))
            ),
            null
        ) as field_names
        {%- else %}
        cast(null as array<string>) as field_names
        {%- endif %}

    from (
        select
            field_map,
            {%- if encoding == 'names' %}
            cast(null as array<int>) as positions
            {%- else %}
            decode_field_map(
                {{ 'field_map' if is_binary else afterimage._valid_text('field_map') }},
                '{{ bits }}', '{{ layout.field_map_bit_order }}'
            ) as positions
            {%- endif %}

        from (
            select distinct field_map
            from tracking_rows
            where {{ 'length(field_map) > 0' if is_binary else "trim(field_map) <> ''" }}
        ) as distinct_maps
    ) as positioned
) as decoded
{%- endmacro -%}
