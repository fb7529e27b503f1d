{#- OpenEdge change table (`CDC_<table>`), with or without its change tracking table -> change contract.
    Arguments: openedge_change_table.yml. -#}
{%- macro openedge_change_table(
    relation,
    unique_key,
    columns=none,
    tracking=none,
    source_table_number=none,
    policy_level=none,
    partition_resets='reject',
    field_map=none,
    field_map_encoding=none,
    field_map_bit_order='high_first',
    split_order='zero_first'
) -%}
    {%- set layout = afterimage._openedge_layout(
        relation, unique_key, columns, tracking, source_table_number, policy_level, partition_resets, field_map,
        field_map_encoding, field_map_bit_order, split_order
    ) -%}
    {%- if layout is none -%}
        {{ return(afterimage._ahead_of_its_tables()) }}
    {%- endif -%}
    {%- set columns = layout.columns -%}
    {%- set unique_key = layout.unique_key -%}
    {%- do afterimage._check_drift('openedge_change_table', relation, columns) -%}
    {%- set key_is_null = afterimage._openedge_any_null('image', unique_key) -%}
    {%- set further_columns = ['tracking'] if layout.tracks else [] -%}
    {%- set intake = afterimage._intake('openedge_change_table', afterimage._openedge_sides(layout)) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.marker ~ afterimage._nothing_staged(further_columns)) }}
    {%- endif -%}
    {%- set change_side = intake.sides[0] -%}
    {%- set tracking_side = intake.sides[-1] %}
{{ intake.marker }}

with

change_rows as (

    select
        {%- for role in ['sequence', 'operation', 'position', 'array_index', 'fragment', 'time', 'transaction_id'] %}
        {{ layout.change[role] }} as {{ role }},
        {%- endfor %}
        {{ afterimage._struct(columns) }} as image

    from {{ change_side.rows if layout.has_changes else relation }}
    where {{ (change_side.condition or change_side.where) if layout.has_changes else 'false' }}

),

tracking_rows as (

    select
        {%- for role in ['sequence', 'operation', 'time', 'transaction_id', 'field_map'] %}
        {{ layout.tracking[role] }} as {{ role }},
        {%- endfor %}
        struct(
            {%- for role in layout.details %}
            {{ layout.tracking[role] }} as {{ role }}{{ ',' if not loop.last }}
            {%- endfor %}
        ) as tracking

    from {{ tracking_side.rows }}
    {%- if layout.tracks %}
    where
        {{ tracking_side.condition or tracking_side.where }}
        and {{ afterimage._openedge_filter(layout, layout.tracking) }}
    {%- else %}
    where false
    {%- endif %}

),

changed_rows as (

    {{ afterimage._openedge_identified(
        'change_rows', ['position', 'array_index', 'fragment'] + layout.image_fields
    ) | indent(4) }}

),

tracked_rows as (

    {{ afterimage._openedge_identified(
        'tracking_rows', ['field_map'] + layout.tracking_fields
    ) | indent(4) }}

),

-- A row delivered twice counts once. Its unique key is (_Change-Sequence, _Operation, _Continuation-Position).
copies as (

    select
        *,
        row_number() over (
            partition by change_group, operation, position, row_hash
            order by time asc nulls last, transaction_id asc nulls last
        ) as copy_number,
        count(*) over (partition by change_group, operation, position, row_hash) as copies

    from changed_rows

),

parts as (

    select
        *,
        count(*) over (partition by change_group, operation) as parts,
        min(position) over (partition by change_group, operation) as lowest_position,
        max(position) over (partition by change_group, operation) as highest_position,
        row_number() over (
            partition by change_group, operation
            order by (position = 0) {{ 'desc' if split_order == 'zero_first' else 'asc' }}, position asc, row_hash asc
        ) as part,
        lead(struct(image, array_index, fragment, copies)) over (
            partition by change_group, operation
            order by (position = 0) {{ 'desc' if split_order == 'zero_first' else 'asc' }}, position asc, row_hash asc
        ) as next_part

    from copies
    where copy_number = 1

),

-- A record near 32,000 bytes is written as two, and only the SQL engine puts them together again: the dumps of ABL
-- hold both. The position says after which field the record broke, but not which part bears it.
split_parts as (

    select
        *,
        kind in ('insert', 'update', 'delete', 'before_image')
        and has_seq
        and parts = 2
        and lowest_position <> highest_position as is_split,
        greatest(array_index, next_part.array_index) as split_index,
        greatest(fragment, next_part.fragment) = 1 as is_fragmented

    from parts

),

-- An array that the record broke in may be landed as one text.
array_halves as (

    select
        *,
        {{ afterimage._openedge_array_elements(layout, 'image') | indent(8) }} as first_elements,
        {{ afterimage._openedge_array_elements(layout, 'next_part.image') | indent(8) }} as second_elements

    from split_parts

),

-- The second part has either its own elements alone or all, with nothing in the places of the first part's.
array_rests as (

    select
        *,
        if(
            array_size(first_elements) = array_size(second_elements)
            and split_index <= array_size(second_elements)
            and array_size(array_except(slice(second_elements, 1, split_index - 1), array('', '?'))) = 0,
            slice(second_elements, split_index, array_size(second_elements)),
            second_elements
        ) as rest_elements

    from array_halves

),

whole_arrays as (

    select
        *,
        array_join(
            if(
                is_fragmented,
                concat(
                    slice(first_elements, 1, split_index - 1),
                    array(concat(try_element_at(first_elements, split_index), get(rest_elements, 0))),
                    slice(rest_elements, 2, array_size(rest_elements))
                ),
                concat(slice(first_elements, 1, split_index - 1), rest_elements)
            ),
            ';'
        ) as whole_array

    from array_rests

),

assembled as (

    select
        change_group,
        has_seq,
        sequence,
        operation,
        kind,
        time,
        transaction_id,
        row_hash,
        if(is_split, {{ afterimage._openedge_joined(layout) | indent(8) }}, image) as image,
        copies + if(is_split, next_part.copies, 0) as row_count,
        case
            when is_split
                then {{ afterimage._openedge_split_reason(layout) | indent(16) }}
            when parts > 1 and highest_position > 0
                then concat('split record in ', parts, ' rows: two parts at the most, and with different positions')
            when position <> 0 and {{ afterimage._openedge_is_half(layout, split_order) | indent(12) }}
                then 'half of a split record: its other part is not there'
        end as split_reason

    from whole_arrays
    where not (is_split and part = 2)

),

judged as (

    select
        *,
        case
            {{ afterimage._openedge_unread_reasons() | indent(12) }}
            when split_reason is not null then split_reason
            when kind in ('insert', 'update', 'delete', 'before_image') and ({{ key_is_null }})
                then {{ afterimage._literal('NULL in the key (' ~ unique_key | join(', ') ~ ')') }}
        end as reject_reason,
        row_number() over (
            partition by
                change_group,
                kind
                {%- for key in unique_key %},
                image.{{ afterimage._quote(key) }}
                {%- endfor %}
            order by row_hash
        ) as number_of_key,
        count_if(kind = 'update') over (partition by change_group) as updates,
        count_if(kind = 'before_image') over (partition by change_group) as before_images

    from assembled

),

-- Before and after of one update share their _Change-Sequence. The keys of the two differ only where the update
-- changed the key, which is certain only if there is one of each.
paired as (

    select
        changes.kind is null as is_orphan,
        coalesce(changes.change_group, before_images.change_group) as change_group,
        coalesce(changes.has_seq, before_images.has_seq) as has_seq,
        coalesce(changes.sequence, before_images.sequence) as sequence,
        coalesce(changes.operation, before_images.operation) as operation,
        coalesce(changes.kind, before_images.kind) as kind,
        coalesce(changes.time, before_images.time) as time,
        coalesce(changes.transaction_id, before_images.transaction_id) as transaction_id,
        coalesce(changes.row_hash, before_images.row_hash) as row_hash,
        if(
            changes.kind is null,
            coalesce(
                before_images.reject_reason,
                'before-image without its update: no update of this key has this _Change-Sequence'
            ),
            changes.reject_reason
        ) as reject_reason,
        changes.image,
        -- Half a before-image is none.
        if(changes.kind is null or before_images.reject_reason is null, before_images.image, null) as before_image,
        if(changes.kind is null, null, before_images.reject_reason) as before_reason,
        coalesce(changes.row_count, 0) + coalesce(before_images.row_count, 0) as row_count

    from (select * from judged where kind <> 'before_image') as changes
    full outer join (select * from judged where kind = 'before_image') as before_images
        on
            changes.change_group = before_images.change_group
            and changes.kind = 'update'
            and changes.number_of_key = 1
            and before_images.number_of_key = 1
            and (
                (changes.updates = 1 and changes.before_images = 1)
                or ({{ afterimage._same_columns('changes.image', 'before_images.image', unique_key) }})
            )

),

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

-- Tracking rows without a change row are there by design: policy levels 0 and 1, changes of the schema, partitions.
joined as (

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

),

-- The vendor's unique keys leave room for one change a sequence. Where there are more, a number in change_id tells them
-- apart, and for one key a suffix of change_seq puts them in a declared order, delete last.
numbered as (

    select
        *,
        row_number() over (
            partition by change_group
            order by
                {{ afterimage._openedge_precedence() }} asc,
                is_orphan asc,
                row_hash asc
        ) as number_in_group,
        row_number() over (
            partition by
                change_group,
                reject_reason is null
                {%- for key in unique_key %},
                coalesce(image, before_image).{{ afterimage._quote(key) }}
                {%- endfor %}
            order by
                {{ afterimage._openedge_precedence() }} asc,
                row_hash asc
        ) as turn

    from joined

),

described as (

    select
        *,
        turn > 1 and reject_reason is null as is_tied,
        case
            when reject_reason is not null then reject_reason
            {{ afterimage._openedge_unread_reasons() | indent(12) }}
            {{ afterimage._openedge_no_data_reasons(layout) | indent(12) }}
        end as final_reason,
        if(
            before_image is null or image is null,
            null,
            array_compact(array(
                {%- for column in columns %}
                if(
                    not (image.{{ afterimage._quote(column) }} <=> before_image.{{ afterimage._quote(column) }}),
                    {{ afterimage._literal(column) }},
                    null
                ){{ ',' if not loop.last }}
                {%- endfor %}
            ))
        ) as differing_columns,
        -- The map is filled for updates alone; an empty one says nothing, of creates and deletes not even that.
        if(
            kind in ('update', 'before_image') and (has_change_row or size(flagged_columns) > 0), flagged_columns, null
        ) as changed_columns

    from numbered

),

changes as (

    select
        concat(
            if(has_seq, lpad(sequence, 19, '0'), change_group),
            if(number_in_group > 1, concat('-', number_in_group), '')
        ) as change_id,
        concat(
            if(has_seq, lpad(sequence, 19, '0'), ''),
            if(is_tied, concat('.', lpad(turn, 3, '0')), '')
        ) as change_seq,
        case
            when kind in ('insert', 'update', 'delete') then kind
            when kind = 'before_image' then 'update'
            when kind in {{ afterimage._openedge_resets() }} and final_reason is null then 'truncate'
        end as operation,
        case
            when kind in ('update', 'before_image') then before_image
            when kind = 'delete' then image
        end as `before`,
        if(kind in ('insert', 'update', 'unknown'), image, null) as `after`,
        changed_columns,
        cast(null as array<string>) as absent_columns,
        changed_at,
        transaction_id,
        final_reason as reject_reason,
        {{ afterimage._openedge_warnings(layout) | indent(8) }} as warnings,
        cast(row_count + if(number_in_group = 1, tracking_copies, 0) as int) as source_rows,
        nullif(tracking.user_name, '') as changed_by
        {%- if layout.tracks %},
        tracking
        {%- endif %}

    from described

)

{#- The two tables may be pruned one after the other: what a change has lost by that, it keeps here. -#}
{%- set stays -%}
known.reject_reason is null
        and (
            (coalesce(changes.`before`, changes.`after`) is null and coalesce(known.`before`, known.`after`) is not null)
            {%- if layout.tracks %}
            or (changes.tracking is null and known.tracking is not null)
            {%- endif %}
        )
{%- endset -%}
{{ afterimage._staged('changes', intake, further_columns, stays) }}
{%- endmacro -%}
