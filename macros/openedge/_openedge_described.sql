{#- The CTEs from `joined` to `described`, the rows that `_finish` takes. -#}
{%- macro _openedge_described(layout) -%}
described as (

    select
        change_group,
        is_orphan,
        row_hash,
        row_count,
        tracking_copies,
        case kind
            when 'insert' then 1 when 'update' then 2 when 'before_image' then 2 when 'delete' then 3 else 4
        end as precedence,
        change_group as identity,
        if(has_seq, change_group, '') as place,
        case
            when reject_reason is not null then reject_reason
            {{ afterimage._openedge_unread_reasons() | indent(12) }}
            {{ afterimage._openedge_no_data_reasons(layout) | indent(12) }}
        end as final_reason,
        if(
            before_image is null or image is null,
            null,
            array_compact(array({{ afterimage._each(
                layout.columns, 'if(image.{column} <=> before_image.{column}, null, {name})'
            ) | join(', ') }}))
        ) as differing_columns,
        -- Only updates fill the map. An empty one says nothing; for creates and deletes not even that.
        if(
            kind in ('update', 'before_image') and (has_change_row or size(flagged_columns) > 0), flagged_columns, null
        ) as changed_columns,
        case
            when kind in ('insert', 'update', 'delete') then kind
            when kind = 'before_image' then 'update'
            when kind in {{ afterimage._openedge_resets() }} and final_reason is null then 'truncate'
            else 'unknown'
        end as kind,
        {{ afterimage._struct(layout.unique_key, 'coalesce(image, before_image).') }} as own_key,
        image,
        before_image,
        changed_at,
        transaction_id,
        final_reason as reject_reason,
        {{ afterimage._openedge_warnings(layout) | indent(8) }} as warnings,
        nullif(tracking.user_name, '') as changed_by
        {%- if layout.tracks %},
        tracking
        {%- endif %}

    from joined

)
{%- endmacro -%}
