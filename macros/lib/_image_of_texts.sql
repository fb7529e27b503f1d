{#- A struct of the data columns from a map of texts. `filled` gives another map for columns that are missing here. -#}
{%- macro _image_of_texts(columns, values, fill_from=none, filled=[]) -%}
named_struct(
    {%- for column in columns %}
    {%- set text = values ~ '[' ~ afterimage._literal(column.name) ~ ']' %}
    {%- if column.name in filled %}
    {%- set text = 'coalesce(' ~ text ~ ', ' ~ fill_from ~ '[' ~ afterimage._literal(column.name) ~ '])' %}
    {%- endif %}
    {{ afterimage._literal(column.name) }}, {{ afterimage._cast_text(text, column.type) }}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)
{%- endmacro -%}
