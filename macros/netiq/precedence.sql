{#- The CTE `classified_alone`: why a row is not an event, as far as the row alone shows it, and the present row for a
    query-back. -#}
{%- macro _netiq_events_classified_alone(layout, incremental) -%}
{%- set fold = layout.force_username_case or '' -%}
{%- set is_field = 'event_type in (1, 2, 3, 7, 8)' -%}
classified_alone as (

    select
        *,
        case
            when no_table is not null then concat('no table_name: ', no_table)
            -- The vendor's comparison of the status is case-sensitive; NULL is not a status.
            when
                not is_eligible
                -- An event that an earlier run read in time stays so, even if the driver has processed it since.
                {{ 'and not was_eligible' if incremental }}
                then concat('not eligible: status ', coalesce(concat('"', status, '"'), 'NULL'))
            {%- if layout.driver_user is not none and not layout.allow_loopback %}
            -- NULL means another user (vendor), so this comparison must not drop it.
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
            image: {{ afterimage._row_type(layout.names, afterimage._column_types(layout.columns)) }},
            misfits: array<struct<column_name: string, reason: string>>
        >) as present_row,
        0 as rows_of_key
        {%- endif %}

    from {{ 'remembered' if incremental else 'named_events' }}
    {%- if layout.base is not none %}
    left outer join base_rows
        on
            object_id = base_id
            and event_type between 5 and 8
    {%- endif %}

)
{%- endmacro -%}


{#- The CTEs from `classified_alone` to `classified`: which events are one change, and which are overruled by a
    query-back. -#}
{%- macro _netiq_events_classified_together(layout, incremental) -%}
{#- A row that is not an event says nothing about the events, so it is kept apart. -#}
{%- set object = 'partition by object_id, row_reason is null' -%}
{%- set in_order = object ~ ' order by event_seq, event_id' -%}
{%- set is_field = 'event_type in (1, 2, 3, 7, 8)' -%}
{%- set is_logged = 'event_type in (1, 2, 3)' -%}
{%- set is_pending = 'not is_taken_in' if incremental else 'true' -%}
{%- set comes_last = '> last_counted' if incremental else 'is not null' -%}
{%- set counted = '(is_taken_in and known_reason is null)' -%}
{%- set overruled = "is_taken_in and known_reason like 'overruled:%'" -%}
{#- If the row is gone, a query-back is void and overrules nothing; nor does one whose values do not fit, which is
    rejected. -#}
{%- set decides = is_pending ~ ' and present_row is not null'
    ~ ' and not exists(present_row.misfits, m -> event_type in (5, 6) or m.column_name = column_name)' -%}
-- A generation lies between two deletes. A stretch is a run of adjacent events of one kind and time.
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

    from classified_alone

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
        {%- if incremental %},
        -- The last event of this field, or of the whole row, that counts since an earlier run; and the last event of
        -- this field that an earlier run has overruled.
        greatest(
            '',
            max(if({{ counted }} and {{ is_field }}, event_seq, null)) over ({{ object }}, generation, column_name),
            max(if({{ counted }} and event_type in (5, 6), event_seq, null)) over ({{ object }}, generation)
        ) as last_counted,
        max(if({{ overruled }}, struct(event_seq, known_reason), null))
            over ({{ object }}, generation, column_name) as last_overruled,
        -- A delete that came late may stand between these and the query-back that overruled them.
        has_gaps
        or max({{ counted }} and event_type in (5, 6)) over ({{ object }}, generation)
        or max({{ counted }} and event_type in (7, 8)) over ({{ object }}, generation, column_name)
            as has_earlier_query_back
        {%- endif %}

    from ordered

),

classified as (

    select
        *,
        -- A second write to a field starts another change.
        row_number() over ({{ object }}, stretch, column_name order by event_seq, event_id) as occurrence,
        case
            when row_reason is not null then row_reason
            {%- if layout.precedence == 'driver' %}
            -- A query-back of a field overrules its logged events; a query-back of the row overrules all events on its
            -- fields. An event that counts since an earlier run, and is behind it, would have the last word.
            when deleted_by is not null or not {{ is_field }} or not ({{ is_pending }}) then null
            when row_query_back {{ comes_last }}
                then concat(
                    'overruled: by the query-back of the row, record ', {{ afterimage._netiq_record('row_query_back') }}
                )
            when {{ is_logged }} and field_query_back {{ comes_last }}
                then concat(
                    'overruled: by the query-back of the field, record ',
                    {{ afterimage._netiq_record('field_query_back') }}
                )
            {%- if incremental %}
            -- So would this event, if the query-back of an earlier run has read what comes after it.
            when {{ is_logged }} and has_earlier_query_back and event_seq < last_overruled.event_seq
                then last_overruled.known_reason
            {%- endif %}
            {%- endif %}
        end as event_reason
        {%- if layout.precedence == 'logged' %},
        -- The next logged event of each field after this one. Reading backward avoids n * n steps.
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
        -- Some events keep their earlier result: query-backs, the events they overruled, and all events of a row that
        -- are no longer complete in the log.
        is_taken_in
        and (has_gaps or event_type >= 5 or coalesce(known_reason like 'overruled:%', false)) as is_kept
        {%- endif %}

    from stretches

)
{%- endmacro -%}
