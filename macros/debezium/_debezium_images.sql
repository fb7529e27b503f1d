{#- The CTEs from the landing to `images`: what each message says, and the row before and after its change. -#}
{%- macro _debezium_images(side, landing, layout) -%}
{%- set columns = layout.columns -%}
{%- set texts = [] -%}
{%- for column in columns -%}
    {%- do texts.append(afterimage._literal(column.name) ~ ', ' ~ afterimage._debezium_text('<values>', column)) -%}
{%- endfor -%}
{%- set texts = 'map(' ~ texts | join(', ') ~ ')' -%}
{%- set known = 'map_filter(<values>, (k, v) -> coalesce(v not in (' ~ layout.placeholders ~ '), true))' -%}
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
        {{ known | replace('<values>', "if(m.op = 'd' and m.is_envelope, coalesce(m.before, "
            ~ afterimage._debezium_payload('key_row') ~ '), m.row)') }} as row_values,
        {{ known | replace('<values>', "if(m.op = 'u', m.before, null)") }} as before_values,
        {{ texts | replace('<values>', 'row_values') }} as row_texts,
        {{ texts | replace('<values>', 'before_values') }} as before_texts,
        -- PostgreSQL sends only the key of the row before an update, and NULLs, unless REPLICA IDENTITY is FULL.
        before_values is not null and (m.source.lsn is null or exists(
            map_entries(before_values), e -> e.value is not null and not array_contains({{ afterimage._string_array(layout.unique_key) }}, e.key)
        )) as has_before,
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
