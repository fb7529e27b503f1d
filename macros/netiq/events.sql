{#- The CTEs from `addressed` to `named_events`: each event once, with its identity and its place. -#}
{%- macro _netiq_named_events(layout) -%}
{%- set number = "if(number_of_record > 1, " ~ afterimage._tie_suffix('number_of_record') ~ ", '')" -%}
-- A row that lands again is one event, even if the driver has changed its status in between. record_id is unique by
-- contract. If it is not, the events are in a declared order: delete last.
copies as (

    select
        *,
        row_number() over (
            partition by object_id, content_hash
            order by is_eligible desc, status asc nulls last
        ) as copy_number,
        count(*) over (partition by object_id, content_hash) as copies,
        dense_rank() over (
            partition by object_id, record_no, key_label
            order by
                no_table is not null asc,
                array_position(array(1, 5, 7, 2, 3, 6, 8, 4), event_type) asc,
                content_hash asc
        ) as number_of_record,
        size(
            collect_set(if(no_table is null, content_hash, null)) over (partition by object_id, record_no)
        ) as events_of_record,
        size(
            collect_set(if(no_table is null, struct(event_type, column_name), null))
                over (partition by object_id, record_no)
        ) as kinds_of_record

    from addressed

),

named_events as (

    select
        *,
        if(
            record_no is null,
            concat('unordered-', content_hash),
            concat(record_no, {{ number }}, '-', key_label)
        ) as event_id,
        if(
            record_no is null{{ ' or event_time is null' if layout.future_events }},
            '',
            concat(
                {%- if layout.future_events %}
                date_format(event_time, 'yyyyMMddHHmmssSSSSSS'),
                '-',
                {%- endif %}
                record_no,
                {{ number }}
            )
        ) as event_seq,
        case
            when event_type = 1 then 'insert'
            when event_type in (2, 3) then 'update'
            when event_type = 4 then 'delete'
            when event_type = 5 then 'row_insert'
            when event_type = 6 then 'row_update'
            when event_type = 7 then 'field_insert'
            when event_type = 8 then 'field_update'
        end as kind

    from copies
    where copy_number = 1

)
{%- endmacro -%}


{#- The CTEs from `named_events` to `remembered`: the results of earlier runs for the events. -#}
{%- macro _netiq_remembered_events(layout, has_erasures, new_shape) -%}
{%- set had_no_key = "coalesce(known_reason like 'table_key does not cast:%', false)" -%}
{%- set has_text_alone = "known_reason rlike '^(malformed table_key|table_key (has not the columns|does not cast))'" -%}
{#- A key that fits now is another object than its text was. -#}
{%- set same_object = 'named_events.object_id = known_events.known_object'
    ~ (' or known_events.had_no_key' if new_shape and new_shape.widened else '') -%}
-- The result of each event in earlier runs, and how many of a row's events those runs took in.
known_events as (

    select
        *,
        count_if(was_taken_in) over (partition by known_key) as events_taken_in,
        {{ had_no_key }} as had_no_key,
        -- A key that cannot be read is named by its text, as in the event.
        if(
            {{ has_text_alone }}, concat('? ', substring(known_event, instr(known_event, '-') + 1)), known_key
        ) as known_object

    from (
        select
            change_id as known_change,
            reject_reason as known_reason,
            reject_reason is null
            or split(reject_reason, ':')[0] in
            ('overruled', 'row gone', 'value does not cast', 'the event changes the key') as was_taken_in,
            {{ afterimage._netiq_key_text(layout.key_columns, 'coalesce(`after`, `before`).') }} as known_key,
            explode(event_ids) as known_event

        from {{ this }}
    ) as exploded

),

known_or_new as (

    select
        named_events.*,
        known_events.known_change,
        known_events.known_reason,
        coalesce(known_events.was_taken_in, false) as was_taken_in,
        -- Its status was looked at before all other reasons but one. What `erased` was before, nobody knows.
        known_events.known_event is not null
        and coalesce(not known_events.known_reason rlike '^(no table_name|not eligible: status|erased$)', true) as was_eligible,
        count_if(known_events.known_event is not null and named_events.no_table is null) over (
            partition by named_events.object_id, named_events.record_no
        ) as known_of_record,
        coalesce(
            max(known_events.events_taken_in) over (partition by named_events.object_id)
            > count_if(known_events.was_taken_in) over (partition by named_events.object_id),
            false
        ) as has_gaps

    from named_events
    left outer join known_events
        on
            {%- if has_erasures %}
            -- An erased change has no key, or a token in its place, and hashes of its event_ids.
            md5(named_events.event_id) = if(
                startswith(known_events.known_event, 'erased-'),
                substring(known_events.known_event, 8),
                md5(known_events.known_event)
            )
            and (
                {{ same_object }}
                or startswith(known_events.known_event, 'erased-')
            )
            {%- else %}
            ({{ same_object }})
            and named_events.event_id = known_events.known_event
            {%- endif %}

),

remembered as (

    select
        *,
        -- If several events share a record_id, it is unknown which of them are known, unless all are. One that is known
        -- alone may have come again in other words since, but not as another type or of another column: that is another
        -- event. The events of a change stay together.
        was_taken_in
        and bool_and(known_of_record = events_of_record or (known_of_record = 1 and kinds_of_record = 1)) over (
            partition by object_id, known_change
        )
        {%- if new_shape and new_shape.widened %}
        -- The value may fit now.
        and not (event_type >= 5 and coalesce(known_reason like 'value does not cast:%', false))
        {%- endif %} as is_taken_in

    from known_or_new

)
{%- endmacro -%}


{#- The record_id in an event's place. -#}
{%- macro _netiq_record(place) -%}
    {{ return("trim(leading '0' from regexp_extract(" ~ place ~ ", '([0-9]{20})(?:[.][0-9]+)*$', 1))") }}
{%- endmacro -%}


{#- The time of a change that keeps its earlier result. Another time zone counts where all its events are there. -#}
{%- macro _netiq_kept_time(layout) -%}
    {{ return(
        'if(size(array_except(kept.event_ids, fresh.event_ids)) = 0, fresh.changed_at, kept.changed_at)'
        if layout.has_new_rules else 'kept.changed_at'
    ) }}
{%- endmacro -%}
