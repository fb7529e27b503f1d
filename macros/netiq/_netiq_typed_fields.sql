{#- The logged values of the fields, each cast to its type. -#}
{%- macro _netiq_typed_fields(layout, value) -%}
named_struct(
    {%- for column in layout.columns %}
    {%- set text = 'try_element_at(field_of, ' ~ afterimage._literal(column.name) ~ ').' ~ value %}
    {{ afterimage._literal(column.name) }}, {{ afterimage._netiq_cast(text, column.type) }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}
