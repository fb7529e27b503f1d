{#- The CTEs from an event log's rows to `judged`: each event once, with the reason why it is set aside, if it is, and
    with what tells which events are one change. Steps are joined where they can be: Spark resolves a query from the
    inside out, a few rounds a step, and gives up after 100 rounds. -#}
{%- macro _netiq_events(layout, incremental) -%}
{%- set log = layout.log -%}
{%- set statuses = afterimage._string_array(layout.statuses) -%}
{%- set is_eligible = 'coalesce(array_contains(' ~ statuses ~ ', status), false)' -%}
{%- set is_fresh = afterimage._netiq_is_fresh(layout) if incremental else none -%}
{%- set fold = layout.force_username_case or '' -%}
{#- A NUMBER without a scale lands as 10.0000000000. -#}
{%- set record_text = "regexp_replace(trim(cast(" ~ log.record_id ~ " as string)), '[.]0*$', '')" -%}
{%- set event_type_text = "regexp_replace(trim(cast(" ~ log.event_type ~ " as string)), '[.]0*$', '')" -%}
{#- What is no event, because it has a reason not to be one, says nothing about those that are. -#}
{%- set object = 'partition by object_id, row_reason is null' -%}
{%- set in_order = object ~ ' order by event_seq' -%}
{%- set is_field = 'event_type in (1, 2, 3, 7, 8)' -%}
{#- Query-back beats what was logged of the same field, and query-back of the row beats all on its fields. -#}
{%- set overruled_by_row = 'row_reason is null and ' ~ is_field ~ ' and row_query_back is not null' -%}
{%- set overruled_by_field -%}
row_reason is null and event_type in (1, 2, 3) and row_query_back is null and field_query_back is not null
{%- endset -%}
log_rows as (

    select
        {{ record_text }} as record_text,
        if(
            {{ record_text }} rlike '^0*[1-9][0-9]{0,19}$',
            lpad(trim(leading '0' from {{ record_text }}), 20, '0'),
            null
        ) as record_no,
        cast({{ log.status }} as string) as status,
        {{ event_type_text }} as event_type_text,
        try_cast({{ event_type_text }} as int) as event_type,
        cast({{ log.event_time }} as string) as event_time_text,
        {{ afterimage._landed_time(log.event_time) }} as event_time,
        cast({{ log.perpetrator }} as string) as perpetrator,
        cast({{ log.table_key }} as string) as table_key,
        cast({{ log.column_name }} as string) as column_text,
        cast({{ log.old_value }} as string) as old_value,
        cast({{ log.new_value }} as string) as new_value
        {%- if is_fresh is not none %},
        -- The same for all ways to write one key, at least.
        coalesce(
            array_join(
                array_sort(split(
                    regexp_replace(
                        regexp_replace(lower(cast({{ log.table_key }} as string)), '["\\\\\\s]', ''),
                        '=0+(?=[0-9])',
                        '='
                    ),
                    '[+]'
                )),
                '+'
            ),
            ''
        ) as loose_key
        {%- endif %}

    from {{ layout.relation }}
    where lower(trim({{ log.table_name }})) = {{ afterimage._literal(layout.table | lower) }}

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
    {%- if is_fresh is not none %}

    -- An event is judged by those before and after it on the same row, so rows with something new are read as a whole.
    where
        loose_key in (
            select fresh.loose_key
            from log_rows as fresh
            where {{ is_fresh }}
        )
    {%- endif %}

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
            record_text, table_key, event_type_text, event_time_text, perpetrator, column_text, old_value, new_value
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
            order by array_position(array(1, 5, 7, 2, 3, 6, 8, 4), event_type) asc, content_hash asc
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

taken_in as (

    select
        change_id as known_id,
        reject_reason as known_reason,
        `after` as known_after,
        changed_columns as known_columns,
        reject_reason is null as is_known_change

    from {{ this }}

),

taken_in_fields as (

    select
        fields_of_changes.known_object,
        fields_of_changes.changed_at,
        fields_of_changes.known_column,
        collect_list(fields_of_changes.change_id) as known_changes

    from (
        select
            change_id,
            changed_at,
            {{ afterimage._netiq_key_text(layout.key_columns, 'coalesce(`after`, `before`).') }} as known_object,
            explode(changed_columns) as known_column

        from {{ this }}
        where reject_reason is null
    ) as fields_of_changes
    group by fields_of_changes.known_object, fields_of_changes.changed_at, fields_of_changes.known_column

),

remembered as (

    select
        named_events.*,
        taken_in.known_id,
        taken_in.known_reason,
        taken_in.known_after,
        taken_in.known_columns,
        taken_in.is_known_change,
        taken_in_fields.known_changes,
        collect_list(if({{ is_eligible }}, taken_in.known_id, null)) over (
            partition by named_events.object_id, named_events.event_time
        ) as pending_ids

    from named_events
    left outer join taken_in
        on named_events.event_id = taken_in.known_id
    left outer join taken_in_fields
        on
            named_events.object_id = taken_in_fields.known_object
            and named_events.event_time = taken_in_fields.changed_at
            and named_events.column_name = taken_in_fields.known_column
            and not {{ is_eligible }}

),
{%- endif %}

judged_alone as (

    select
        *,
        case
            -- The vendor compares the status with case; NULL is no status at all.
            when
                not {{ is_eligible }}
                {%- if incremental %}
                -- What the driver has processed since an earlier run took it in stays taken in: an event that has
                -- its change_id, or one put together with an event that is processed or deleted by now.
                and not (known_id is not null and not coalesce(known_reason like 'not eligible: status%', false))
                and not coalesce(
                    exists(known_changes, k -> k < event_id and not array_contains(pending_ids, k)), false
                )
                {%- endif %}
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

    from {{ 'remembered' if incremental else 'named_events' }}

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
        max(if(event_type in (5, 6), event_seq, null)) over ({{ object }}, generation) as row_query_back,
        min(if(event_type = 4, record_no, null)) over ({{ object }}, generation) as deleted_by,
        max(if(event_type in (7, 8), event_seq, null)) over ({{ object }}, generation, column_name) as field_query_back

    from ordered

),

judged as (

    select
        *,
        -- A field that is written again opens another change.
        row_number() over ({{ object }}, stretch, column_name order by event_seq, event_id) as occurrence,
        case
            when row_reason is not null then row_reason
            when {{ overruled_by_row }}
                then concat(
                    'overruled: by the query-back of the row, record ', {{ afterimage._netiq_record('row_query_back') }}
                )
            when {{ overruled_by_field }}
                then concat(
                    'overruled: by the query-back of the field, record ',
                    {{ afterimage._netiq_record('field_query_back') }}
                )
        end as event_reason
        {%- if incremental %},
        -- The last query-back answers for all that is overruled, so it is read anew for what it has not yet seen.
        coalesce(
            if(event_type in (5, 6), event_seq = row_query_back, event_seq = field_query_back)
            and if(
                event_type in (5, 6),
                max({{ overruled_by_row }} and not coalesce(known_reason like 'overruled:%', false))
                    over ({{ object }}, generation),
                max({{ overruled_by_field }} and not coalesce(known_reason like 'overruled:%', false))
                    over ({{ object }}, generation, column_name)
            ),
            false
        ) as reads_anew
        {%- endif %}

    from stretches

)
{%- endmacro -%}
