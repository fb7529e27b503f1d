{#- A row that holds the key and the values of the logged fields. -#}
{%- macro _netiq_image(layout, values) -%}
named_struct(
    {%- for column in layout.columns %}
    {%- set name = afterimage._quote(column.name) %}
    {{ afterimage._literal(column.name) }},
    {{ ('key_values.' if column.name in layout.unique_key else values ~ '.') ~ name }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}
