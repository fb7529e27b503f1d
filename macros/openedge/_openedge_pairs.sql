{#- The CTEs from `assembled` to `paired`: a before-image beside its update. -#}
{%- macro _openedge_pairs(layout) -%}
{%- set key = afterimage._struct(layout.unique_key, 'image.') -%}
judged as (

    select
        *,
        case
            {{ afterimage._openedge_unread_reasons() | indent(12) }}
            when split_reason is not null then split_reason
            when kind in ('insert', 'update', 'delete', 'before_image') and {{ afterimage._has_null_key(layout.unique_key) }}
                then {{ afterimage._null_key_reason(layout.unique_key) }}
        end as reject_reason,
        row_number() over (
            partition by change_group, kind, {{ afterimage._quoted(layout.unique_key, 'image.') | join(', ') }}
            order by row_hash
        ) as number_of_key,
        min(if(kind = 'update', {{ key }}, null)) over (partition by change_group)
        = max(if(kind = 'update', {{ key }}, null)) over (partition by change_group)
        and min(if(kind = 'before_image', {{ key }}, null)) over (partition by change_group)
        = max(if(kind = 'before_image', {{ key }}, null)) over (partition by change_group) as has_one_key_each

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
        coalesce(changes.row_count, 0) + coalesce(before_images.row_count, 0) as row_count

    from (select * from judged where kind <> 'before_image') as changes
    full outer join (select * from judged where kind = 'before_image') as before_images
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
