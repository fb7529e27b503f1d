{#- Why two parts do not make a record; NULL if they do. -#}
{%- macro _openedge_split_reason(layout) -%}
    {%- set text_fields = [] -%}
    {%- set conflicts = [] -%}
    {%- for field in layout.fields -%}
        {%- if layout.types[field.names[0]] in ['string', 'binary'] -%}
            {%- do text_fields.append(field.number) -%}
        {%- endif -%}
        {%- for column in field.columns -%}
            {%- set first = 'image.' ~ afterimage._quote(column) -%}
            {%- do conflicts.append(
                'if(not (' ~ afterimage._openedge_is_broken(layout, field, column) ~ ') and ' ~ first
                ~ ' <> next_part.' ~ first ~ ', ' ~ afterimage._literal(column) ~ ', null)'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
case
    when is_fragmented and highest_position not in ({{ text_fields | join(', ') or 0 }})
        then concat('split record: field ', highest_position, ' is not text, so it cannot be in both parts')
    when array_size(first_elements) < split_index - if(is_fragmented, 0, 1)
        then concat('split record: the first part ends before array element ', split_index)
    else concat('split record: both parts have a value for ', nullif(array_join(array_compact(array(
        {{ conflicts | join(',\n        ') }}
    )), ', '), ''))
end
{%- endmacro -%}
