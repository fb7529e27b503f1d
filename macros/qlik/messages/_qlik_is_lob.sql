{%- macro _qlik_is_lob(column, with_schemas) -%}
    {%- set declared = 'true' if column.lob else 'false' -%}
    {%- if not with_schemas -%}
        {{ return(declared) }}
    {%- endif -%}
    {{ return('coalesce(array_contains(lob_columns, ' ~ afterimage._literal(column.name) ~ '), ' ~ declared ~ ')') }}
{%- endmacro -%}
