{#- The events of the keys that an incremental run rebuilds, each from its place on. What the history knows comes
    before them: the version that lived at that place, or the end of the last one. -#}
{%- macro _rebuilt_events(rebuilt, keys, unique_key) -%}
located_events as (

    select
        given_events.*,
        affected.start_seq,
        given_events.change_seq >= affected.start_seq as is_rebuilt

    from (
        select * from own_events
        union all
        select * from departures
    ) as given_events
    inner join {{ rebuilt.touched }} as affected
        on
            affected.is_key
            and {{ afterimage._each(unique_key, 'given_events.{key} <=> affected.{key}') | join(' and ') }}

),

-- For a key that lives at its place, the living version; for any other, the end of its last version.
last_known as (

    select
        {{ keys | join(', ') }},
        start_seq,
        valid_from_seq as change_seq,
        valid_from as changed_at,
        history_id as change_id,
        operation,
        if(is_deleted, operation, null) as ended_by,
        not is_deleted as is_row,
        image,
        transaction_id,
        version - 1 as version_base

    from {{ rebuilt.touched }}
    where is_touched and valid_from_seq < start_seq
    union all
    select
        {{ keys | join(', ') }},
        start_seq,
        max_by(valid_to_seq, version) filter (where not is_touched) as change_seq,
        max_by(valid_to, version) filter (where not is_touched) as changed_at,
        cast(null as string) as change_id,
        cast(null as string) as operation,
        max_by(closed_by, version) filter (where not is_touched) as ended_by,
        false as is_row,
        null as image,
        cast(null as string) as transaction_id,
        max(version) filter (where not is_touched) as version_base

    from {{ rebuilt.touched }}
    where not is_key
    group by {{ keys | join(', ') }}, start_seq
    having bool_or(not is_touched) and not bool_or(is_touched and valid_from_seq < start_seq)

),

rebuilt_events as (

    -- Of earlier events only the times still matter, because a later change cannot be valid before them.
    select
        {{ keys | join(', ') }},
        if(is_rebuilt, change_seq, '') as change_seq,
        if(is_rebuilt, event_rank, -1) as event_rank,
        load_time,
        change_id,
        operation,
        if(is_rebuilt, ended_by, null) as ended_by,
        is_rebuilt and is_row as is_row,
        if(is_rebuilt, image, null) as image,
        if(is_rebuilt, unknown_columns, null) as unknown_columns,
        if(is_rebuilt, arrived_by, null) as arrived_by,
        if(is_rebuilt, before_image, null) as before_image,
        changed_at,
        transaction_id,
        start_seq,
        false as is_known,
        cast(null as int) as version_base

    from located_events
    union all
    select
        {{ keys | join(', ') }},
        change_seq,
        0 as event_rank,
        cast(null as timestamp) as load_time,
        change_id,
        operation,
        ended_by,
        is_row,
        image,
        cast(null as array<string>) as unknown_columns,
        cast(null as string) as arrived_by,
        if(true, null, image) as before_image,
        changed_at,
        transaction_id,
        start_seq,
        true as is_known,
        version_base

    from last_known

),
{%- endmacro -%}
