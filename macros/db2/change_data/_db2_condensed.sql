{#- The CTEs from `distinct_rows` to `found_changes` for a table that holds the last row of each key. It holds a
    state, not changes, so every row has the place of a full-load row, and a later one takes its change_id. -#}
{%- macro _db2_condensed() -%}
states as (

    select
        *,
        -- There should be one row per key. If there are more, the latest is taken.
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

found_changes as (

    select
        concat(
            if(reject_reason is null, concat('key-', key_hash), row_group),
            if(turn > 1, concat('-', turn), '')
        ) as identity,
        '' as place,
        if(kind in ('insert', 'update'), 'load', kind) as kind,
        kind as row_kind,
        key_hash as own_key,
        image,
        if(true, null, image) as before_image,
        has_before_values,
        false as lost_before,
        cast(null as string) as key_change_warning,
        commit_place,
        changed_at,
        if(
            reject_reason is null and turn > 1,
            'superseded: a later row has this key, so the table is not condensed',
            reject_reason
        ) as reject_reason,
        copies as source_rows

    from states

)
{%- endmacro -%}
