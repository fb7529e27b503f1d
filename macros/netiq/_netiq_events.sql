{#- The CTEs from an event log's rows to `judged`: each event once, with the reason why it is set aside, if it is, and
    with what tells which events are one change. Steps are joined where they can be: Spark resolves a query from the
    inside out, a few rounds a step, and gives up after 100 rounds. -#}
{%- macro _netiq_events(layout, incremental) -%}
{%- set log = layout.log -%}
{%- set statuses = afterimage._string_array(layout.statuses) -%}
{%- set is_eligible = 'coalesce(array_contains(' ~ statuses ~ ', status), false)' -%}
{%- set table = afterimage._literal(layout.table | lower) -%}
{%- set fold = layout.force_username_case or '' -%}
{%- set event_type_text = "regexp_replace(trim(cast(" ~ log.event_type ~ " as string)), '[.]0*$', '')" -%}
{#- What is no event, because it has a reason not to be one, says nothing about those that are. -#}
{%- set object = 'partition by object_id, row_reason is null' -%}
{%- set in_order = object ~ ' order by event_seq, event_id' -%}
{%- set is_field = 'event_type in (1, 2, 3, 7, 8)' -%}
{%- set is_logged = 'event_type in (1, 2, 3)' -%}
{%- set is_pending = 'not is_taken_in' if incremental else 'true' -%}
{#- A query-back is void where the row is gone: then it overrules nothing. -#}
{%- set decides = is_pending ~ ' and found is not null' -%}
{%- set table_name = 'cast(' ~ log.table_name ~ ' as string)' -%}
log_rows as (

    select
        {{ afterimage._netiq_record_text(log) }} as record_text,
        {{ afterimage._netiq_record_no(log) }} as record_no,
        cast({{ log.status }} as string) as status,
        {{ event_type_text }} as event_type_text,
        try_cast({{ event_type_text }} as int) as event_type,
        cast({{ log.event_time }} as string) as event_time_text,
        {{ afterimage._netiq_event_time(layout) }} as event_time,
        cast({{ log.perpetrator }} as string) as perpetrator,
        if(
            lower(trim({{ table_name }})) = {{ table }}, null, coalesce(concat('"', {{ table_name }}, '"'), 'NULL')
        ) as no_table,
        cast({{ log.table_key }} as string) as table_key,
        cast({{ log.column_name }} as string) as column_text,
        cast({{ log.old_value }} as string) as old_value,
        cast({{ log.new_value }} as string) as new_value

    from {{ layout.rows }}
    where {{ layout.condition or afterimage._netiq_side(layout).where }}

),

parsed_rows as (

    select
        *,
        parse_table_key(table_key{{ ', true' if layout.trim_key_numbers }}) as parsed,
        named_struct(
            {%- for key in layout.key_columns %}
            {{ afterimage._literal(key.name) }},
            try_element_at(
                filter(
                    map_entries(parse_table_key(table_key{{ ', true' if layout.trim_key_numbers }}).parts),
                    e -> lower(trim(e.key)) = {{ afterimage._literal(key.name | lower) }}
                ),
                1
            ).value{{ ',' if not loop.last }}
            {%- endfor %}
        ) as key_text,
        case lower(trim(column_text))
            {%- for name in layout.names %}
            when {{ afterimage._literal(name | lower) }} then {{ afterimage._literal(name) }}
            {%- endfor %}
        end as column_name

    from log_rows

),

addressed as (

    select
        *,
        {{ afterimage._netiq_key_values(layout) | indent(8) }} as key_values,
        {{ afterimage._netiq_key_reason(layout) | indent(8) }} as key_reason,
        coalesce(
            {{ afterimage._netiq_object_id(layout) }},
            concat('? ', coalesce(parsed.canonical, table_key, ''))
        ) as object_id,
        coalesce(parsed.canonical, table_key, '') as key_label,
        md5(to_json(struct(
            record_text, table_key, event_type_text, event_time_text, perpetrator, column_text, old_value, new_value,
            no_table
        ))) as content_hash

    from parsed_rows
    -- All that follows is of one row of the table at a time, and needs no other exchange.
    distribute by object_id

),

-- A row landed again is one event, also when the driver has changed its status in between. record_id is unique by
-- contract; where it is not, the events stand in a declared order: delete last.
copies as (

    select
        *,
        row_number() over (
            partition by object_id, content_hash
            order by {{ is_eligible }} desc, status asc nulls last
        ) as copy_number,
        count(*) over (partition by object_id, content_hash) as copies,
        dense_rank() over (
            partition by object_id, record_no, key_label
            order by
                no_table is not null asc,
                array_position(array(1, 5, 7, 2, 3, 6, 8, 4), event_type) asc,
                content_hash asc
        ) as number_of_record,
        size(collect_set(content_hash) over (partition by object_id, record_no)) as events_of_record

    from addressed

),

named_events as (

    select
        *,
        if(
            record_no is null,
            concat('unordered-', content_hash),
            concat(record_no, if(number_of_record > 1, concat('.', lpad(number_of_record, 3, '0')), ''), '-', key_label)
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
                if(number_of_record > 1, concat('.', lpad(number_of_record, 3, '0')), '')
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

),
{%- if incremental %}

-- What the events became in earlier runs, and how many of a row's events these took in.
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
        -- Of a record_id that several events share nobody knows which of them it was.
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

),
{%- endif %}
{%- if layout.base is not none %}

-- A row of the table as it is now. A key has one; of several the greatest stands, so that no change is doubled.
base_rows as (

    select
        images.base_id,
        max(struct(images.image, images.misfits)) as found,
        count(*) as rows_of_key

    from (
        select
            typed_rows.*,
            {{ afterimage._netiq_key_text(layout.key_columns, 'image.') }} as base_id

        from (
            select
                named_struct(
                    {%- for column in layout.columns %}
                    {{ afterimage._literal(column.name) }},
                    {{ afterimage._netiq_base_value(layout, column) }}{{ ',' if not loop.last }}
                    {%- endfor %}
                ) as image,
                {{ afterimage._netiq_base_misfits(layout) | indent(16) }} as misfits

            from {{ layout.base }}
        ) as typed_rows
    ) as images
    group by images.base_id

),
{%- endif %}

judged_alone as (

    select
        *,
        case
            when no_table is not null then concat('no table_name: ', no_table)
            -- The vendor compares the status with case; NULL is no status at all.
            when
                not {{ is_eligible }}
                -- What the driver has processed since an earlier run took it in stays taken in.
                {{ 'and not was_taken_in' if incremental }}
                then concat('not eligible: status ', coalesce(concat('"', status, '"'), 'NULL'))
            {%- if layout.driver_user is not none and not layout.allow_loopback %}
            -- NULL is somebody else (vendor), so it must not get lost in this comparison.
            when {{ fold }}(perpetrator) <=> {{ fold }}({{ afterimage._literal(layout.driver_user) }})
                then concat('not eligible: perpetrator is the driver: ', perpetrator)
            {%- endif %}
            when record_no is null
                then concat(
                    'record_id is not a positive whole number: ', coalesce(concat('"', record_text, '"'), 'NULL')
                )
            when kind is null then concat('unknown event_type: ', coalesce(event_type_text, 'NULL'))
            when event_time is null
                then concat('event_time is no time: ', coalesce(concat('"', event_time_text, '"'), 'NULL'))
            when key_reason is not null then key_reason
            when {{ is_field }} and column_name is null
                then concat('unknown column_name: ', coalesce(concat('"', column_text, '"'), 'NULL'))
            {%- if layout.base is none %}
            when event_type >= 5 then concat('query-back without `base`: event_type ', event_type)
            {%- endif %}
            {%- if layout.future_events %}
            when event_time > timestamp '{{ layout.as_of }}'
                then concat('held back: event_time is in the future: ', cast(event_time as string))
            {%- endif %}
        end as row_reason
        {%- if layout.base is none %},
        cast(null as struct<
            image: {{ afterimage._netiq_row_type(layout) }},
            misfits: array<struct<column_name: string, reason: string>>
        >) as found,
        0 as rows_of_key
        {%- endif %}

    from {{ 'remembered' if incremental else 'named_events' }}
    {%- if layout.base is not none %}
    left outer join base_rows
        on
            object_id = base_id
            and event_type between 5 and 8
    {%- endif %}

),

-- A generation is what lies between two deletes; a stretch is what lies side by side and is of one kind and time.
ordered as (

    select
        *,
        coalesce(
            count_if(event_type = 4) over ({{ in_order }} rows between unbounded preceding and 1 preceding), 0
        ) as generation,
        not coalesce(
            {{ is_field }}
            and lag(kind) over ({{ in_order }}) = kind
            and lag(event_time) over ({{ in_order }}) = event_time,
            false
        ) as is_start

    from judged_alone

),

stretches as (

    select
        *,
        count_if(is_start) over ({{ in_order }} rows between unbounded preceding and current row) as stretch,
        min(if(event_type = 4, record_no, null)) over ({{ object }}, generation) as deleted_by,
        max(if(event_type in (5, 6) and {{ decides }}, event_seq, null)) over ({{ object }}, generation) as row_query_back,
        max(if(event_type in (7, 8) and {{ decides }}, event_seq, null)) over (
            {{ object }}, generation, column_name
        ) as field_query_back

    from ordered

),

judged as (

    select
        *,
        -- A field that is written again opens another change.
        row_number() over ({{ object }}, stretch, column_name order by event_seq, event_id) as occurrence,
        case
            when row_reason is not null then row_reason
            {%- if layout.precedence == 'driver' %}
            -- A query-back beats what was logged of the same field, and one of the row beats all on its fields.
            when deleted_by is not null or not {{ is_field }} or not ({{ is_pending }}) then null
            when row_query_back is not null
                then concat(
                    'overruled: by the query-back of the row, record ', {{ afterimage._netiq_record('row_query_back') }}
                )
            when {{ is_logged }} and field_query_back is not null
                then concat(
                    'overruled: by the query-back of the field, record ',
                    {{ afterimage._netiq_record('field_query_back') }}
                )
            {%- endif %}
        end as event_reason
        {%- if layout.precedence == 'logged' %},
        -- The first event that was logged of each field behind this one. Read backward, or it would take n * n steps.
        map_from_entries(filter(
            cast(array(
                {%- for column in layout.data_columns %}
                {%- set name = afterimage._literal(column.name) %}
                struct(
                    {{ name }} as column_name,
                    last(if({{ is_logged }} and column_name = {{ name }}, struct(event_type, old_value), null), true) over (
                        {{ object }}, generation
                        order by event_seq desc, event_id desc rows between unbounded preceding and 1 preceding
                    ) as logged
                ){{ ',' if not loop.last }}
                {%- endfor %}
            ) as array<struct<column_name: string, logged: struct<event_type: int, old_value: string>>>),
            e -> e.logged is not null
        )) as logged_next
        {%- endif %}
        {%- if incremental %},
        -- These keep what they got: query-backs, what they overruled, and all of a row whose events are no longer
        -- all in the log.
        is_taken_in
        and (has_gaps or event_type >= 5 or coalesce(known_reason like 'overruled:%', false)) as is_kept
        {%- endif %}

    from stretches

)
{%- endmacro -%}
