{#- Column names as Spark identifiers, so that hyphens, leading underscores and reserved words work. Line breaks do
    not: we indent statements, which would change the name. -#}
{%- macro _quote(name) -%}
    {%- if (name ~ '.').splitlines() | length > 1 -%}
        {%- do exceptions.raise_compiler_error(
            "columns: a name must not have a line break. Rename the column, or select it under another name in a view."
            ~ " Got: " ~ name | tojson
        ) -%}
    {%- endif -%}
    {{ return('`' ~ (name | replace('`', '``')) ~ '`') }}
{%- endmacro -%}
