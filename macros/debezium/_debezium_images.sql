{#- The CTEs from `opened` to `images`: the row before and after each change, and the columns that a message lacks or
    has in excess. -#}
{%- macro _debezium_images(layout) -%}
texts as (

    select
        *,
        if(row_values is null, null, {{ afterimage._debezium_texts('row_values', layout) | indent(8) }}) as row_texts,
        -- PostgreSQL tells of the row before an update its key alone, with NULLs, unless REPLICA IDENTITY is FULL.
        if(
            m.source.lsn is not null
            and size(map_filter(before_values, (k, v) -> v is not null and not array_contains({{ afterimage._string_array(layout['keys']) }}, k))) <= 0,
            null,
            {{ afterimage._debezium_texts('before_values', layout) | indent(12) }}
        ) as before_texts

    from opened

),

images as (

    select
        *,
        concat(
            {{ afterimage._misfits(layout.columns, 'row_texts', '') | indent(12) }},
            {{ afterimage._misfits(layout.columns, 'before_texts', ' before') | indent(12) }}
        ) as misfits,
        if(row_values is null, null, {{ afterimage._image_of_texts(layout.columns, 'row_texts') | indent(8) }}) as image,
        if(
            before_values is null or before_texts is null,
            null,
            {{ afterimage._image_of_texts(layout.columns, 'before_texts') | indent(12) }}
        ) as before_image,
        if(
            m.op = 'd',
            null,
            nullif(
                array_except({{ afterimage._string_array(layout.names) }}, map_keys(row_values)),
                cast(array() as array<string>)
            )
        ) as absent_columns,
        array_except(
            filter(map_keys(m.row), k -> not (startswith(k, '__') and not m.is_envelope)),
            {{ afterimage._string_array(layout.names) }}
        ) as undeclared

    from texts

)
{%- endmacro -%}


{%- macro _debezium_texts(values, layout) -%}
map(
    {%- for column in layout.columns %}
    {{ afterimage._literal(column.name) }}, {{ afterimage._debezium_text(values, column) }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}
