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


{%- macro _netiq_event_time(layout) -%}
    {{ return(afterimage._in_utc(afterimage._landed_time(layout.log.event_time), layout.time_zone or 'UTC')) }}
{%- endmacro -%}


{#- record_id in 20 digits, for sorting; NULL if it is not a positive whole number. -#}
{%- macro _netiq_record_no(log) -%}
    {%- set text = afterimage._netiq_record_text(log) -%}
    {{ return(
        'if(' ~ text ~ " rlike '^0*[1-9][0-9]{0,19}$', lpad(trim(leading '0' from " ~ text ~ "), 20, '0'), null)"
    ) }}
{%- endmacro -%}


{#- record_id as a text. A NUMBER without a scale lands as 10.0000000000. -#}
{%- macro _netiq_record_text(log) -%}
    {{ return("regexp_replace(trim(cast(" ~ log.record_id ~ " as string)), '[.]0*$', '')") }}
{%- endmacro -%}


{#- Why a table_key does not give a key of this table, or NULL. -#}
{%- macro _netiq_key_reason(layout) -%}
{%- set misfit = 'table_key has not the columns of the key (' ~ layout.unique_key | join(', ') ~ '): ' -%}
case
    when table_key is null then 'malformed table_key: NULL'
    when parsed.error is not null then concat('malformed table_key: ', parsed.error)
    when
        size(parsed.parts) <> {{ layout.key_columns | length }}
        or {{ afterimage._each(layout.unique_key, 'key_text.{column} is null') | join(' or ') }}
        then concat({{ afterimage._literal(misfit) }}, table_key)
    {%- for key in layout.key_columns %}
    {%- set text = 'key_text.' ~ afterimage._quote(key.name) %}
    when {{ afterimage._netiq_cast(text, key.type) }} is null
        then concat(
            {{ afterimage._literal('table_key does not cast: ' ~ key.name ~ ' is no ' ~ key.type ~ ': "') }},
            {{ text }},
            '"'
        )
    {%- endfor %}
end
{%- endmacro -%}


{#- A typed key as one text, which identifies its row. -#}
{%- macro _netiq_key_text(keys, prefix) -%}
    {%- set values = [] -%}
    {%- for key in keys -%}
        {%- do values.append(afterimage._as_text(prefix ~ afterimage._quote(key.name), key.type)) -%}
    {%- endfor -%}
    {{ return('to_json(array(' ~ values | join(', ') ~ '))') }}
{%- endmacro -%}


{#- A text of the log as a value of a type; NULL if it does not fit. Unlike a plain cast, try_cast rejects "1.5" for
    an int. A decimal is not rounded, a date does not lose its time, and a time does not lose decimals or its zone. -#}
{%- macro _netiq_cast(text, type) -%}
    {%- if type == 'string' -%}
        {{ return(text) }}
    {%- elif type == 'binary' -%}
        {{ return("try_to_binary(" ~ text ~ ", 'base64')") }}
    {%- elif type.startswith('decimal') -%}
        {{ return('if(' ~ afterimage._decimal_misfit(text, type) ~ ', null, try_cast(' ~ text ~ ' as ' ~ type ~ '))') }}
    {%- elif type == 'date' -%}
        {#- Spark ignores text after a date. -#}
        {{ return(
            'if(cast(try_cast(' ~ text ~ ' as date) as timestamp) = ' ~ afterimage._landed_time(text, 'string')
            ~ ', try_cast(' ~ text ~ ' as date), null)'
        ) }}
    {%- elif type.startswith('timestamp') -%}
        {{ return(
            'if(' ~ afterimage._has_no_date(text) ~ ' or ' ~ afterimage._loses_time(text, type) ~ ', null, try_cast('
            ~ text ~ ' as ' ~ type ~ '))'
        ) }}
    {%- endif -%}
    {{ return('try_cast(' ~ text ~ ' as ' ~ type ~ ')') }}
{%- endmacro -%}
