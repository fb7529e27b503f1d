{#- A type in a form to compare: as Iceberg stores it, which has no integers smaller than an int, and without the
    capitals that fields of a struct may have. -#}
{%- macro _stored_type(type) -%}
    {{ return(modules.re.sub('\\b(tinyint|smallint)\\b', 'int', type | lower)) }}
{%- endmacro -%}
