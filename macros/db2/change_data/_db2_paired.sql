{#- The CTEs from `distinct_rows` to `told_apart` for a table that holds every change: delete and insert of one key in
    one commit are one update. -#}
{%- macro _db2_paired(layout, pair_key_changes) -%}
key_turns as (

    select
        *,
        lag(kind) over (in_key) as previous_kind,
        lead(struct(kind, image, copies)) over (in_key) as next_row
        {%- if pair_key_changes %},
        row_number() over (
            partition by coalesce(commit_place, row_group) order by intent_place, row_rank, row_group, image_hash
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

told as (

    select
        row_group,
        row_rank,
        kind as row_kind,
        if(is_pair, 'update', kind) as kind,
        reject_reason,
        key_hash,
        image_hash,
        commit_place,
        intent_place,
        changed_at,
        last_time,
        case
            when is_pair or kind = 'delete' then image
            when kind = 'update' and has_before_values and {{ afterimage._db2_has_key(layout, 'landed_before') }}
                then landed_before
        end as `before`,
        case
            when is_pair then next_row.image
            when kind <> 'delete' then image
        end as `after`,
        has_before_values,
        kind = 'update' and has_before_values
        and not {{ afterimage._db2_has_key(layout, 'landed_before') }} as lost_before,
        copies + if(is_pair, next_row.copies, 0) as source_rows,
        -- The two halves of an update may arrive in different runs, either one first, so what they bear in common is
        -- the identity: the commit, the key, and which of the key's changes in the commit it is. As rows arrive, that
        -- number never leaves the changes, and the place it stands for never grows.
        case
            when reject_reason is not null or kind = 'load' then row_group
            when kind = 'update' then concat(commit_place, '-', intent_place, '-U')
            else concat(commit_place, '-', key_hash)
        end as identity
        {%- if pair_key_changes %},
        place_in_commit
        {%- endif %}

    from paired

),

numbered as (

    select
        told.*,
        row_number() over (
            partition by identity
            order by
                intent_place asc,
                row_rank asc,
                if(kind = 'load', last_time, null) desc nulls last,
                image_hash desc
        ) as number_of_identity,
        row_number() over (
            partition by
                if(reject_reason is null and kind <> 'load', concat(commit_place, intent_place, key_hash), identity)
            order by array_position(array('load', 'insert', 'update', 'delete'), kind), row_rank, image_hash
        ) as turn
        {%- if pair_key_changes %},
        count_if(kind = 'delete') over (in_commit) as deletes,
        count_if(kind = 'insert') over (in_commit) as inserts,
        max(if(kind = 'insert', place_in_commit, null)) over (in_commit)
        - max(if(kind = 'delete', place_in_commit, null)) over (in_commit) as distance,
        first(if(kind = 'delete', `before`, null), true) over (in_commit) as deleted_row
        {%- endif %}

    from told
    {%- if pair_key_changes %}
    window in_commit as (partition by if(reject_reason is null, commit_place, row_group))
    {%- endif %}

),
{%- if pair_key_changes %}

-- Two rows stay two, since the next one of their commit may yet part them: the first changes nothing, the second moves
-- the row from the old key to the new.
key_changes as (

    select
        identity,
        number_of_identity,
        turn,
        commit_place,
        intent_place,
        changed_at,
        reject_reason,
        row_kind,
        has_before_values,
        lost_before,
        source_rows,
        is_key_change,
        kind as lone_kind,
        if(is_key_change, 'update', kind) as kind,
        if(is_key_change, deleted_row, `before`) as `before`,
        if(is_key_change and kind = 'delete', deleted_row, `after`) as `after`

    from (
        select
            *,
            reject_reason is null
            and kind in ('delete', 'insert')
            and deletes = 1
            and inserts = 1
            and coalesce(distance = 1, false) as is_key_change

        from numbered
    ) as judged_pairs

),
{%- endif %}

told_apart as (

    select
        concat(identity, if(number_of_identity > 1, concat('-', number_of_identity), '')) as change_id,
        concat(
            if(kind = 'load', '', coalesce(concat(commit_place, intent_place), '')),
            if(is_tied, concat('.', lpad(turn, 3, '0')), '')
        ) as change_seq,
        kind as operation,
        `before`,
        `after`,
        changed_at,
        commit_place,
        if(
            kind = 'load' and reject_reason is null and number_of_identity > 1,
            'superseded: a later load has other values for this key',
            reject_reason
        ) as reject_reason,
        row_kind as kind,
        has_before_values,
        lost_before,
        is_tied,
        {% if pair_key_changes -%}
        case
            when is_key_change and lone_kind = 'delete'
                then 'read as the first row of a key change, which the next one tells'
            when is_key_change
                then 'a delete and an insert of different keys are read as a key change'
        end
        {%- else -%}
        cast(null as string)
        {%- endif %} as key_change_warning,
        source_rows

    from (
        select
            *,
            turn > 1 and kind <> 'load' and reject_reason is null as is_tied

        from {{ 'key_changes' if pair_key_changes else 'numbered' }}
    ) as tied

)
{%- endmacro -%}
