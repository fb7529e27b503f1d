{#- Decodes each distinct field map once. A text of 0 and 1 is bits; other text is the names from the SQL helper
    CDC_get_changed_columns. -#}
{%- macro _openedge_field_maps(layout) -%}
    {%- set encoding = layout.field_map_encoding -%}
    {%- set is_binary = layout.field_map_type == 'binary' -%}
    {%- set bits = encoding or ('bytes' if is_binary else 'bits') -%}
    {%- set all_names = [] -%}
    {%- for field in layout.fields -%}
        {%- do all_names.append(field.name | lower | replace('-', '_')) -%}
    {%- endfor -%}
select
    field_map,
    flatten(array_compact(array(
        {%- for field in layout.fields if field.columns %}
        if(
            array_contains(positions, {{ field.number }})
            or array_contains(field_names, {{ afterimage._literal(field.name | lower | replace('-', '_')) }}),
            {{ afterimage._string_array(field.columns) }},
            null
        ){{ ',' if not loop.last }}
        {%- endfor %}
    ))) as flagged_columns,
    if(
        positions is not null,
        cast(filter(positions, k -> k > {{ layout.fields | length }}) as array<string>),
        array_except(field_names, {{ afterimage._string_array(all_names) }})
    ) as unknown_fields,
    positions is not null or field_names is not null as is_decoded

from (
    select
        field_map,
        positions,
        {%- if encoding == 'names' or (encoding is none and not is_binary) %}
        if(
            positions is null,
            transform(
                filter(split(field_map, ';'), name -> trim(name) <> ''),
                name -> lower(replace(trim(name), '-', '_'))
            ),
            null
        ) as field_names
        {%- else %}
        cast(null as array<string>) as field_names
        {%- endif %}

    from (
        select
            field_map,
            {%- if encoding == 'names' %}
            cast(null as array<int>) as positions
            {%- else %}
            decode_field_map(
                {{ 'field_map' if is_binary else afterimage._valid_text('field_map') }},
                '{{ bits }}', '{{ layout.field_map_bit_order }}'
            ) as positions
            {%- endif %}

        from (
            select distinct field_map
            from tracking_rows
            where {{ 'length(field_map) > 0' if is_binary else "trim(field_map) <> ''" }}
        ) as distinct_maps
    ) as positioned
) as decoded
{%- endmacro -%}
