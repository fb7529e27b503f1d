{#- A JSON text in which no number loses a digit. Spark reads a number with a fraction as a double, so where one is
    possible it becomes a text first. Few messages need this. -#}
{%- macro _exact_numbers(text) -%}
coalesce(
    quote_json_numbers(if({{ text }} rlike '[:,\\[]\\s*-?[0-9]+[.eE][-+.eE0-9]*\\s*[,}\\]]', {{ text }}, null)),
    {{ text }}
)
{%- endmacro -%}
