{#- The CTEs from the landed rows to `changed_rows` and `tracked_rows`: the kind of each row, and which rows belong
    together. -#}
{%- macro _openedge_landed_rows(layout, sides) -%}
{%- set change_side = sides[0] -%}
{%- set tracking_side = sides[-1] -%}
change_rows as (

    select
        {%- for role in ['sequence', 'operation', 'position', 'array_index', 'fragment', 'time', 'transaction_id'] %}
        {{ layout.change[role] }} as {{ role }},
        {%- endfor %}
        {{ afterimage._struct(layout.columns) }} as image,
        {{ afterimage._openedge_filled_fields(layout) | indent(8) }} as filled_fields

    from {{ change_side.rows if layout.has_changes else layout.relation }}
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
        {%- if layout.tracking_relation is none and layout.telling %}
        -- A change row that landed again without what was joined to it says nothing against what it said.
        and coalesce(
            {%- for role in layout.telling %}
            cast({{ layout.tracking[role] }} as string){{ ',' if not loop.last }}
            {%- endfor %}
        ) is not null
        {%- endif %}
    {%- else %}
    where false
    {%- endif %}

),

changed_rows as (

    {{ afterimage._openedge_identified(
        'change_rows',
        ['position', 'array_index', 'fragment'] + layout.image_fields,
        ['position', 'array_index', 'fragment', 'time', 'transaction_id'],
        afterimage._row_to_name('image', layout.columns, layout.types) ~ ' as image'
    ) | indent(4) }}

),

tracked_rows as (

    {{ afterimage._openedge_identified(
        'tracking_rows',
        ['field_map'] + layout.tracking_fields,
        ['time', 'transaction_id', 'field_map'],
        'tracking'
    ) | indent(4) }}

)
{%- endmacro -%}


{#- The numbers of the fields that have a value, of all fields, for a row with a position: they tell half a record from
    a whole one. -#}
{%- macro _openedge_filled_fields(layout) -%}
if(
    {{ layout.change.position }} <> 0,
    array_compact(array(
        {%- for field in layout.fields if field.number %}
        if(coalesce({{ afterimage._quoted(field.names) | join(', ') }}) is null, null, {{ field.number }})
        {{- ',' if not loop.last }}
        {%- endfor %}
    )),
    null
)
{%- endmacro -%}


{#- Adds to raw rows `kind`, `change_group` (the sequence; a malformed row is its own group, named by its `metadata` and
    its `content`) and `row_hash`, a hash of the `values`. -#}
{%- macro _openedge_identified(rows, values, metadata, content) -%}
select
    *,
    if(
        has_seq,
        lpad(sequence, 19, '0'),
        concat('unordered-', md5({{ afterimage._exact_json(
            'struct(sequence, operation, ' ~ metadata | join(', ') ~ ', ' ~ content ~ ', has_seq, kind)'
        ) }}))
    ) as change_group,
    {{ afterimage._hash_of_values(values) | indent(4) }} as row_hash

from (
    select
        *,
        -- At most 19 digits, as in an int64.
        coalesce(sequence rlike '^[0-9]{1,19}$', false) as has_seq,
        case operation
            when '1' then 'insert'
            when '2' then 'delete'
            when '3' then 'before_image'
            when '4' then 'update'
            when '5' then 'field deleted'
            when '6' then 'partition dropped'
            when '7' then 'partition truncated'
            when '8' then 'partition deallocated'
            when '9' then 'tenant partition deallocated'
            when '10' then 'tenant partition dropped'
            when '11' then 'partition merged'
            when '12' then 'field added'
            else 'unknown'
        end as kind

    from {{ rows }}
) as recognised
-- All later windows and joins use the group, or the group and more, so one exchange serves them all.
distribute by change_group
{%- endmacro -%}


{#- The CTEs from `assembled` to `paired`: a before-image beside its update. -#}
{%- macro _openedge_pairs(layout) -%}
{%- set key = afterimage._struct(layout.unique_key, 'image.') -%}
classified as (

    select
        *,
        case
            {{ afterimage._openedge_unread_reasons() | indent(12) }}
            when split_reason is not null then split_reason
            when kind in ('insert', 'update', 'delete', 'before_image') and {{ afterimage._has_null_key(layout.unique_key) }}
                then {{ afterimage._null_key_reason(layout.unique_key) }}
        end as reject_reason,
        if(
            is_superseded,
            null,
            row_number() over (
                partition by
                    change_group, kind, is_superseded, {{ afterimage._quoted(layout.unique_key, 'image.') | join(', ') }}
                order by row_hash
            )
        ) as number_of_key,
        bool_or(kind = 'before_image' and split_reason is null) over (partition by change_group) as has_before_image,
        {{ afterimage._has_one_key_each(
            "kind = 'before_image' and not is_superseded", "kind = 'update' and not is_superseded", key, 'change_group'
        ) }} as has_one_key_each

    from assembled

),

-- The before-image and after-image of an update share their _Change-Sequence. Their keys differ only if the update
-- changed the key, and that is certain only if each side has one key.
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
        -- Half a before-image does not count.
        if(changes.kind is null or before_images.reject_reason is null, before_images.image, null) as before_image,
        if(changes.kind is null, null, before_images.reject_reason) as before_reason,
        coalesce(changes.row_count, 0) + coalesce(before_images.row_count, 0) as row_count,
        coalesce(changes.has_forms, false) or coalesce(before_images.has_forms, false) as has_forms,
        coalesce(changes.has_before_image, before_images.has_before_image) as has_before_image,
        changes.is_split,
        before_images.is_split as before_is_split

    from (select * from classified where kind <> 'before_image') as changes
    full outer join (select * from classified where kind = 'before_image') as before_images
        on
            changes.change_group = before_images.change_group
            and changes.kind = 'update'
            and changes.number_of_key = 1
            and before_images.number_of_key = 1
            and (
                changes.has_one_key_each
                or ({{ afterimage._same_columns('changes.image', 'before_images.image', layout.unique_key) }})
            )

)
{%- endmacro -%}
