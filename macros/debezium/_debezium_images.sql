{#- The CTEs from the landing to `images`: what each message says, and the row before and after its change. -#}
{%- macro _debezium_images(side, landing, layout) -%}
{%- set columns = layout.columns -%}
{%- set texts = [] -%}
{%- for column in columns -%}
    {%- do texts.append(afterimage._literal(column.name) ~ ', ' ~ afterimage._debezium_text('<values>', column)) -%}
{%- endfor -%}
{%- set texts = 'map(' ~ texts | join(', ') ~ ')' -%}
{%- set known = 'map_filter(<values>, (k, v) -> coalesce(v not in (' ~ layout.placeholders ~ '), true))' -%}
{%- set keys = afterimage._string_array(layout.unique_key) -%}
{%- set others = afterimage._string_array(columns | map(attribute='name') | reject('in', layout.unique_key) | list) -%}
{%- set made_up = afterimage._literal(
    '^(|0([.]0+)?|false|\\[\\]|\\{\\}|AA==|\\{"scale":0,"value":"AA=="\\}|(1970-01-01T)?00:00:00([.]0+)?Z)$'
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
        {{ known | replace('<values>', "if(m.op = 'd' and not m.is_envelope, m.row, m.before)") }} as known_before,
        -- PostgreSQL sends only the key of the row before a change, with NULL in the other columns, or where they are
        -- NOT NULL a value that the connector makes up; unless REPLICA IDENTITY is FULL.
        coalesce(m.source.lsn is null or exists(
            map_entries(known_before), e -> array_contains({{ others }}, e.key) and not coalesce(e.value rlike {{ made_up }}, true)
        ), false) as knows_row_before,
        if(
            m.op = 'd',
            coalesce(
                if(knows_row_before, known_before, map_filter(known_before, (k, v) -> array_contains({{ keys }}, k))),
                {{ afterimage._debezium_payload('key_row') | indent(16) }}
            ),
            {{ known | replace('<values>', 'm.row') }}
        ) as row_values,
        if(m.op = 'u', known_before, null) as before_values,
        {{ texts | replace('<values>', 'row_values') }} as row_texts,
        {{ texts | replace('<values>', 'before_values') }} as before_texts,
        before_values is not null and knows_row_before as has_before,
        concat(
            {{ afterimage._misfits(columns, 'row_texts', '') | indent(12) }},
            {{ afterimage._misfits(columns, 'before_texts', ' before') | indent(12) }}
        ) as misfits,
        if(m.op is null or row_values is null, null, {{ afterimage._image_of_texts(columns, 'row_texts') | indent(8) }}) as image,
        if(has_before, {{ afterimage._image_of_texts(columns, 'before_texts') | indent(8) }}, null) as row_before,
        array_except({{ layout.names }}, map_keys(row_values)) as unknown_columns,
        array_except(filter(map_keys(m.row), k -> m.is_envelope or not startswith(k, '__')), {{ layout.names }}) as undeclared

    from messages

)
{%- endmacro -%}
