{#- A type to compare with another: as Iceberg stores it, which has no whole numbers smaller than an int, and without
    the capitals that the fields of a struct may have. -#}
{%- macro _stored_type(type) -%}
    {{ return(modules.re.sub('\\b(tinyint|smallint)\\b', 'int', type | lower)) }}
{%- endmacro -%}
