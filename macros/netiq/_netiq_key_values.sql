{#- The row's key, cast to its types. -#}
{%- macro _netiq_key_values(layout) -%}
named_struct(
    {%- for key in layout.key_columns %}
    {{ afterimage._literal(key.name) }},
    {{ afterimage._netiq_cast('key_text.' ~ afterimage._quote(key.name), key.type) }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}
