{#- The CTEs from `named_events` to `remembered`: the results of earlier runs for the events. -#}
{%- macro _netiq_remembered_events(layout) -%}
-- The result of each event in earlier runs, and how many of a row's events those runs took in.
known_events as (

    select
        *,
        count_if(was_taken_in) over (partition by known_object) as events_taken_in

    from (
        select
            change_id as known_change,
            reject_reason as known_reason,
            reject_reason is null
            or split(reject_reason, ':')[0] in
            ('overruled', 'row gone', 'value does not cast', 'the event changes the key') as was_taken_in,
            {{ afterimage._netiq_key_text(layout.key_columns, 'coalesce(`after`, `before`).') }} as known_object,
            explode(event_ids) as known_event

        from {{ this }}
    ) as exploded

),

remembered as (

    select
        named_events.*,
        known_events.known_change,
        known_events.known_reason,
        coalesce(known_events.was_taken_in, false) as was_taken_in,
        coalesce(known_events.was_taken_in or known_events.known_reason like 'held back:%', false) as was_eligible,
        -- If several events share a record_id, it is unknown which of them it was.
        coalesce(known_events.was_taken_in and named_events.events_of_record = 1, false) as is_taken_in,
        coalesce(
            max(known_events.events_taken_in) over (partition by named_events.object_id)
            > count_if(known_events.was_taken_in) over (partition by named_events.object_id),
            false
        ) as has_gaps

    from named_events
    left outer join known_events
        on
            named_events.object_id = known_events.known_object
            and named_events.event_id = known_events.known_event

)
{%- endmacro -%}
