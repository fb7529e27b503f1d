{#- A text that differs whenever the values differ: each value with its length, NULL as a dash. -#}
{%- macro _unambiguous_text(expressions) -%}
    {%- set parts = [] -%}
    {%- for expression in expressions -%}
        {%- do parts.append(
            "coalesce(concat(length(cast(" ~ expression ~ " as string)), ':', cast(" ~ expression ~ " as string)), '-')"
        ) -%}
    {%- endfor -%}
    {{ return('concat(' ~ parts | join(', ') ~ ')') }}
{%- endmacro -%}
