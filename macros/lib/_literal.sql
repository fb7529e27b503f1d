{#- A text as a Spark literal. -#}
{%- macro _literal(text) -%}
    {{ return("'" ~ (text | replace('\\', '\\\\') | replace("'", "\\'")) ~ "'") }}
{%- endmacro -%}
