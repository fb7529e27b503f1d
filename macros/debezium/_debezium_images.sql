{#- The CTEs from the landing to `images`: what each message says, and the row before and after its change. -#}
{%- macro _debezium_images(side, landing, layout) -%}
{%- set columns = layout.columns -%}
{%- set texts = [] -%}
{%- for column in columns -%}
    {%- set text = afterimage._debezium_text('<values>', column, layout.infinity) -%}
    {%- do texts.append(afterimage._literal(column.name) ~ ', ' ~ text) -%}
{%- endfor -%}
{%- set texts = 'map(' ~ texts | join(', ') ~ ')' -%}
{%- set known = 'map_filter(<values>, (k, v) -> coalesce(v not in (' ~ layout.placeholders ~ '), <null is known>))' -%}
{#- NULL is a value, except of an update in the columns of null_is_absent. REPLICA IDENTITY FULL shows the row before,
    and then the connector knows all of the row. -#}
{%- set null_is_known = "not (array_contains(" ~ afterimage._string_array(layout.sparse) ~ ", k) and (m.op = 'u'"
    ~ " and not has_before or m.op = 'c' and coalesce(contains(headers, '__debezium.oldkey'), false)))"
    if layout.sparse else 'true' -%}
{%- set no_number = afterimage._literal(
    '^[^"]* "(NaN|NAN|-?Infinity|(POSITIVE|NEGATIVE)_INFINITY)" [(]decimal[^"]*$'
) -%}
{%- set bounded = [] -%}
{%- for column in columns if layout.infinity is none and column.type in ['date', 'timestamp', 'timestamp_ntz'] -%}
    {%- set name = afterimage._literal(column.name) -%}
    {%- do bounded.append(
        'if(row_texts[' ~ name ~ '] in (' ~ afterimage._debezium_bounds(column) | join(', ') ~ '), ' ~ name ~ ', null)'
    ) -%}
{%- endfor -%}
{%- set keys = afterimage._string_array(layout.unique_key) -%}
{%- set others = afterimage._string_array(columns | map(attribute='name') | reject('in', layout.unique_key) | list) -%}
{%- set made_up = afterimage._literal(
    '^(|0([.]0+)?|false|\\[\\]|\\{\\}|AA==|\\{"scale":0,"value":"AA=="\\}'
    ~ '|1970-01-01([T ]00:00:00([.]0+)?)?Z?|00:00:00([.]0+)?Z|P0Y0M0DT0H0M0S)$'
) -%}
landed_messages as (

    select
        {{ landing.value }} as value,
        {{ landing.key }} as message_key,
        {{ landing.key_row }} as key_row,
        {{ landing.unread }} as unread,
        {{ landing.position }} as landed_position,
        {{ landing.partition }} as landed_partition,
        {{ landing.headers }} as headers

    from {{ side.rows }}
    where {{ side.condition or 'true' }}

),

messages as (

    select
        *,
        {{ afterimage._debezium_message(afterimage._exact_numbers('value')) | indent(8) }} as m

    from landed_messages

),

images as (

    select
        *,
        -- The values of each row that the connector knew.
        {{ known | replace('<values>', "if(m.op = 'd' and not m.is_envelope, m.row, m.before)") | replace('<null is known>', 'true') }}
            as known_before,
        -- PostgreSQL sends only the key of the row before a change, with NULL in the other columns, or where they are
        -- NOT NULL a value that the connector makes up; unless REPLICA IDENTITY is FULL.
        coalesce(m.source.lsn is null or exists(
            map_entries(known_before), e -> array_contains({{ others }}, e.key) and not coalesce(e.value rlike {{ made_up }}, true)
        ), false) as knows_row_before,
        if(m.op = 'u', known_before, null) as before_values,
        before_values is not null and knows_row_before as has_before,
        if(
            m.op = 'd',
            coalesce(
                if(knows_row_before, known_before, map_filter(known_before, (k, v) -> array_contains({{ keys }}, k))),
                {{ afterimage._debezium_payload('key_row') | indent(16) }}
            ),
            {{ known | replace('<values>', 'm.row') | replace('<null is known>', null_is_known) }}
        ) as row_values,
        {{ texts | replace('<values>', 'row_values') }} as row_texts,
        {{ texts | replace('<values>', 'before_values') }} as before_texts,
        concat(
            {{ afterimage._misfits(columns, 'row_texts', '') | indent(12) }},
            {{ afterimage._misfits(columns, 'before_texts', ' before') | indent(12) }}
        ) as all_misfits,
        -- NaN and infinity of a decimal are NULL, as the connector itself writes them unless its decimals are texts or
        -- doubles.
        filter(all_misfits, misfit -> not misfit rlike {{ no_number }}) as misfits,
        filter(all_misfits, misfit -> misfit rlike {{ no_number }}) as no_numbers,
        {{ 'array_compact(array(' ~ bounded | join(', ') ~ '))' if bounded else 'cast(array() as array<string>)' }} as bounded,
        {{ afterimage._debezium_null_placeholders([] if layout.sparse is not none else columns) | indent(8) }} as doubtful_nulls,
        if(m.op is null or row_values is null, null, {{ afterimage._image_of_texts(columns, 'row_texts') | indent(8) }}) as image,
        if(has_before, {{ afterimage._image_of_texts(columns, 'before_texts') | indent(8) }}, null) as row_before,
        array_except({{ layout.names }}, map_keys(row_values)) as unknown_columns,
        array_except(filter(map_keys(m.row), k -> m.is_envelope or not startswith(k, '__')), {{ layout.names }}) as undeclared

    from messages

)
{%- endmacro -%}
