{#- A text that differs whenever the values differ: each value with its length, NULL as a dash. -#}
{%- macro _unambiguous_text(expressions) -%}
concat(
    {%- for expression in expressions %}
    coalesce(concat(length(cast({{ expression }} as string)), ':', cast({{ expression }} as string)), '-')
    {{- ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}
