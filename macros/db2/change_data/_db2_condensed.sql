{#- The CTEs from `distinct_rows` to `told_apart` for a table that holds the last row of each key: no changes but a
    state, so every row has the place of a full-load row, and a later one takes its change_id. -#}
{%- macro _db2_condensed() -%}
states as (

    select
        *,
        -- There should be one row a key. Where there are more, the latest stands.
        row_number() over (
            partition by if(reject_reason is null, key_hash, row_group)
            order by
                commit_place desc nulls last,
                intent_place desc nulls last,
                row_rank desc,
                last_time desc nulls last,
                image_hash asc
        ) as turn

    from distinct_rows

),

told_apart as (

    select
        concat(
            if(reject_reason is null, concat('key-', key_hash), row_group),
            if(turn > 1, concat('-', turn), '')
        ) as change_id,
        '' as change_seq,
        if(kind in ('insert', 'update'), 'load', kind) as operation,
        if(kind = 'delete', image, null) as `before`,
        if(kind = 'delete', null, image) as `after`,
        changed_at,
        commit_place,
        if(
            reject_reason is null and turn > 1,
            'superseded: a later row has this key, so the table is not condensed',
            reject_reason
        ) as reject_reason,
        kind,
        has_before_values,
        false as lost_before,
        false as is_tied,
        cast(null as string) as key_change_warning,
        copies as source_rows

    from states

)
{%- endmacro -%}
