{#- The CTEs from `grouped` to `paired`: each row once, with an update's before-image beside it. With
    `has_short_way` only those of `complex_groups`. -#}
{%- macro _qlik_pairs(layout, has_short_way) -%}
{%- set values = afterimage._comparable_columns(layout.columns, layout.types, 'image.') -%}
complex_rows as (

    select
        grouped.*,
        {{ afterimage._hash_of_values(values) | indent(8) }} as image_hash

    {%- if has_short_way %}
    -- Each group occurs once. The hashes come first, so that a compiled join reads and sorts the rows only if there is
    -- a group. The groups must be equal too; a plain equality would shuffle the rows again.
    from complex_groups
    inner join grouped
        on
            complex_groups.group_hash = grouped.group_hash
            and coalesce(
                grouped.change_group between complex_groups.change_group and complex_groups.change_group, false
            )
    {%- else %}
    from grouped
    {%- endif %}

),

-- A row delivered twice counts once: the copy with the first real timestamp.
{{ afterimage._distinct_rows(
    'complex_rows', by='group_hash, change_group, kind, image_hash',
    first='source_time asc nulls last, transaction_id asc nulls last, change_mask asc nulls last', time='source_time'
) }},

-- What a before-image and its update have in common. Their keys differ only if the update changed the key, and that is
-- certain only if there is one of each.
matchable as (

    select
        *,
        if(
            count_if(kind = 'update') over (in_group) = 1
            and count_if(kind = 'before_image' and reject_reason is null) over (in_group) = 1,
            null,
            {{ afterimage._struct(layout.unique_key, 'image.') }}
        ) as pair_key

    from distinct_rows
    window in_group as (partition by group_hash, change_group)

),

matched as (

    select
        *,
        row_number() over (
            partition by group_hash, change_group, pair_key, kind
            order by reject_reason is not null, image_hash
        ) as number_of_pair

    from matchable

),

partners as (

    select
        *,
        first(
            if(
                kind = 'before_image' and reject_reason is null and number_of_pair = 1,
                struct(image, copies),
                null
            ),
            true
        ) over (partition by group_hash, change_group, pair_key) as before_partner,
        max(kind = 'update' and number_of_pair = 1) over (partition by group_hash, change_group, pair_key) as has_update

    from matched

),

-- The vendor's recipe is a left outer join of the changes with the before-images of the same change_seq. Looking up the
-- before-image next to each update gives the same without reading the table twice, and also shows before-images without
-- an update.
paired as (

    select
        group_hash,
        change_group,
        kind,
        kind = 'before_image' as is_orphan,
        has_seq,
        image_hash,
        source_time,
        last_time,
        transaction_id,
        change_mask,
        if(kind = 'before_image', null, image) as image,
        case
            when kind = 'before_image' then image
            when kind = 'update' and number_of_pair = 1 then before_partner.image
        end as before_image,
        if(
            kind = 'before_image' and reject_reason is null,
            'before-image without its update: no update of this key has this change_seq',
            reject_reason
        ) as reject_reason,
        copies + if(kind = 'update' and number_of_pair = 1, coalesce(before_partner.copies, 0), 0) as source_rows,
        false as is_alone

    from partners
    where not (kind = 'before_image' and reject_reason is null and number_of_pair = 1 and has_update)

)
{%- endmacro -%}
