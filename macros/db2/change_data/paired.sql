{#- The CTEs from `distinct_rows` to `paired_changes` for a table that holds every change: delete and insert of one
    key in one commit are one update. -#}
{%- macro _db2_paired(layout, pair_key_changes) -%}
{%- set deleted = "if(kind = 'delete' and not is_pair, " -%}
{%- set inserted = "if(kind = 'insert', " -%}
{#- Where the two rows of an update are: at its key, or at the old one and the new. -#}
{%- set halves = "if(reject_reason is null and kind <> 'load', "
    ~ ('commit_place' if pair_key_changes else 'concat(commit_place, key_hash)') ~ ', row_group)' -%}
key_turns as (

    select
        *,
        lag(kind) over (in_key) as previous_kind,
        lead(struct(kind, image, copies)) over (in_key) as next_row,
        max(kind = 'delete') over (partition by {{ halves }}) as has_before_image,
        max(kind <> 'delete') over (partition by {{ halves }}) as has_after_image
        {%- if pair_key_changes %},
        dense_rank() over (
            partition by coalesce(commit_place, row_group) order by intent_place, row_rank, row_group
        ) as place_in_commit
        {%- endif %}

    from distinct_rows
    window
        in_key as (
            partition by
                if(reject_reason is null and kind <> 'load', concat(commit_place, key_hash), row_group)
            order by intent_place, row_rank, image_hash
        )

),

paired as (

    select
        *,
        kind = 'delete' and reject_reason is null and coalesce(next_row.kind = 'insert', false) as is_pair

    from key_turns
    where
        reject_reason is not null
        or kind <> 'insert'
        or coalesce(previous_kind <> 'delete', true)

),
{%- if pair_key_changes %}

-- The two rows of a key change stay separate, since the next row of their commit may yet split them: the first changes
-- nothing, the second moves the row from the old key to the new. Keys count, not rows: either may come again in other
-- words, such as a padded CHAR. Then one insert moves the row.
key_changes as (

    select
        *,
        coalesce(
            reject_reason is null
            and not is_pair
            and (
                kind = 'delete'
                or (kind = 'insert' and row_number() over (
                    partition by {{ halves }}, kind order by image_hash
                ) = 1)
            )
            and min({{ deleted }}key_hash, null)) over (in_commit) = max({{ deleted }}key_hash, null)) over (in_commit)
            and min({{ inserted }}key_hash, null)) over (in_commit) = max({{ inserted }}key_hash, null)) over (in_commit)
            and max({{ inserted }}place_in_commit, null)) over (in_commit)
            - min({{ deleted }}place_in_commit, null)) over (in_commit) = 1,
            false
        ) as is_key_change,
        min_by({{ deleted }}image, null), {{ deleted }}image_hash, null)) over (in_commit) as deleted_row

    from paired
    window in_commit as (partition by {{ halves }})

),
{%- endif %}

paired_changes as (

    select
        -- The two halves of an update may arrive in different runs, in either order. So the identity is what they
        -- share: the commit, the key, and the number of the key's change in the commit. As rows arrive, a number never
        -- drops out of the changes, and its place never grows.
        case
            when reject_reason is not null or kind = 'load' then row_group
            when kind = 'update' then concat(commit_place, '-', intent_place, '-U')
            else concat(commit_place, '-', key_hash)
        end as identity,
        if(kind = 'load', '', coalesce(concat(commit_place, intent_place), '')) as place,
        if(is_pair{{ ' or is_key_change' if pair_key_changes }}, 'update', kind) as kind,
        kind as row_kind,
        key_hash as own_key,
        if(is_pair, next_row.image, image) as image,
        case
            {%- if pair_key_changes %}
            when is_key_change then deleted_row
            {%- endif %}
            when is_pair then image
            when kind = 'update' and has_before_values and not {{ afterimage._has_null_key(layout.unique_key, 'landed_before') }}
                then landed_before
        end as before_image,
        has_before_values,
        kind = 'update' and has_before_values
        and {{ afterimage._has_null_key(layout.unique_key, 'landed_before') }} as lost_before,
        {% if pair_key_changes -%}
        case
            when is_key_change and kind = 'delete'
                then 'read as the first row of a key change, which the next one tells'
            when is_key_change
                then 'a delete and an insert of different keys are read as a key change'
        end
        {%- else -%}
        cast(null as string)
        {%- endif %} as key_change_warning,
        commit_place,
        intent_place,
        row_rank,
        image_hash,
        last_time,
        changed_at,
        reject_reason,
        copies + if(is_pair, next_row.copies, 0) as source_rows,
        has_before_image,
        has_after_image

    from {{ 'key_changes' if pair_key_changes else 'paired' }}

)
{%- endmacro -%}
