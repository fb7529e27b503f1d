{#- The short way for changes that need no pairing: `plain`. In a full build it spares nearly all rows the windows
    of _qlik_pairs. Every group must be found either here or among `complex_groups`, never in both or neither: a
    change to one condition needs the same change to the other. -#}
{%- macro _qlik_plain_changes() -%}
{%- set by_kind = 'partition by group_hash, change_group order by kind' -%}
-- Nearly every change is alone, or next to its only before-image, so the row before it has all it needs.
neighbours as (

    select
        *,
        count(*) over ({{ by_kind }} rows between unbounded preceding and unbounded following) as rows_in_group,
        lag(image) over ({{ by_kind }}) as image_before,
        lag(kind = 'before_image' and reject_reason is null) over ({{ by_kind }}) as has_before_image

    from grouped

),

classified_groups as (

    select
        *,
        case
            when rows_in_group = 1 and kind <> 'before_image' then 'alone'
            when rows_in_group = 2 and kind = 'update' and reject_reason is null and has_before_image
                then 'behind its before-image'
        end as plain_case

    from neighbours

),

plain as (

    select
        group_hash,
        change_group,
        kind,
        false as is_orphan,
        has_seq,
        cast(null as bigint) as image_hash,
        source_time,
        source_time as last_time,
        transaction_id,
        change_mask,
        image,
        if(plain_case = 'alone', null, image_before) as before_image,
        reject_reason,
        rows_in_group as source_rows,
        true as is_alone

    from classified_groups
    where plain_case is not null

),

-- The other groups: those with copies, ties or orphans. No change_group is empty. The condition on an empty one only
-- makes this reader need the same columns as the other two, so that Spark shuffles the rows once for all three.
complex_groups as (

    select
        group_hash,
        change_group

    from grouped
    group by group_hash, change_group
    having
        not (
            (count(*) = 1 and count_if(kind = 'before_image') = 0)
            or (
                count(*) = 2
                and count_if(kind = 'update' and reject_reason is null) = 1
                and count_if(kind = 'before_image' and reject_reason is null) = 1
            )
        )
        or count_if(
            change_group = '' and to_json(struct(has_seq, source_time, transaction_id, change_mask, image)) = ''
        ) > 0

)
{%- endmacro -%}
