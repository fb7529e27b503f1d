{#- The CTEs from the rows of the log to `addressed`: the table row that each one is about. -#}
{%- macro _netiq_log_rows(layout) -%}
{%- set log = layout.log -%}
{%- set table = afterimage._literal(layout.table | lower) -%}
{%- set event_type_text = "regexp_replace(trim(cast(" ~ log.event_type ~ " as string)), '[.]0*$', '')" -%}
{#- A UDF takes no text that is not UTF-8. With U+FFFD in its place, different objects would be one. -#}
{%- set valid_key = 'if(' ~ afterimage._valid_text('table_key') ~ ' = table_key, table_key, null)' -%}
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
        parse_table_key({{ valid_key }}{{ ', true' if layout.trim_key_numbers }}) as parsed,
        named_struct(
            {%- for key in layout.key_columns %}
            {{ afterimage._literal(key.name) }},
            try_element_at(
                filter(
                    map_entries(parse_table_key({{ valid_key }}{{ ', true' if layout.trim_key_numbers }}).parts),
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
        end as column_name,
        coalesce(array_contains({{ afterimage._string_array(layout.statuses) }}, status), false) as is_eligible

    from log_rows

),

addressed as (

    select
        *,
        named_struct(
            {%- for key in layout.key_columns %}
            {{ afterimage._literal(key.name) }},
            {{ afterimage._netiq_cast('key_text.' ~ afterimage._quote(key.name), key.type) }}{{ ',' if not loop.last }}
            {%- endfor %}
        ) as key_values,
        {{ afterimage._netiq_key_reason(layout) | indent(8) }} as key_reason,
        if(
            key_reason is null,
            {{ afterimage._netiq_key_text(layout.key_columns, 'key_values.') }},
            concat('? ', coalesce(parsed.canonical, table_key, ''))
        ) as object_id,
        coalesce(parsed.canonical, table_key, '') as key_label,
        md5(to_json(struct(
            record_text, table_key, event_type_text, event_time_text, perpetrator, column_text, old_value, new_value,
            no_table
        ))) as content_hash

    from parsed_rows
    -- All later steps work on one table row at a time, so they need no other exchange.
    distribute by object_id

)
{%- endmacro -%}
