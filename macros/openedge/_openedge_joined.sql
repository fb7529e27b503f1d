{#- The struct of a split record: each column from the part that has it. -#}
{%- macro _openedge_joined(layout) -%}
    {%- set columns = [] -%}
    {%- for field in layout.fields -%}
        {%- for name in field.columns -%}
            {%- do columns.append({'name': name, 'field': field}) -%}
        {%- endfor -%}
    {%- endfor -%}
named_struct(
    {%- for column in columns %}
    {%- set is_text = layout.types[column.name] == 'string' %}
    {%- set first = 'image.' ~ afterimage._quote(column.name) %}
    {%- set second = 'next_part.' ~ first %}
    {{ afterimage._literal(column.name) }},
    {%- if is_text or layout.types[column.name] == 'binary' %}
    case
        {%- if is_text and not column.field.is_array %}
        when split_index > 0 and highest_position = {{ column.field.number }}
            then coalesce(whole_array, {{ first }}, {{ second }})
        {%- endif %}
        when {{ afterimage._openedge_is_broken(layout, column.field, column.name) }}
            then coalesce(concat({{ first }}, {{ second }}), {{ first }}, {{ second }})
        else coalesce({{ first }}, {{ second }})
    end
    {%- else %}
    coalesce({{ first }}, {{ second }})
    {%- endif %}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)
{%- endmacro -%}
