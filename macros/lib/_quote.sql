{#- Column names as Spark identifiers, so that hyphens, leading underscores and reserved words work. -#}
{%- macro _quote(name) -%}
    {{ return('`' ~ (name | replace('`', '``')) ~ '`') }}
{%- endmacro -%}
