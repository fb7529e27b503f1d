{#- The CTE `judged_alone`: why a row is not an event, as far as the row alone shows it, and the present row for a
    query-back. -#}
{%- macro _netiq_events_judged_alone(layout, incremental) -%}
{%- set fold = layout.force_username_case or '' -%}
{%- set is_field = 'event_type in (1, 2, 3, 7, 8)' -%}
judged_alone as (

    select
        *,
        case
            when no_table is not null then concat('no table_name: ', no_table)
            -- The vendor's comparison of the status is case-sensitive; NULL is not a status.
            when
                not is_eligible
                -- An event that an earlier run took in stays taken in, even if the driver has processed it since.
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

)
{%- endmacro -%}
