{#- Columns, as `_relation_columns` gives them -> their types by their names. -#}
{%- macro _column_types(columns) -%}
    {{ return(dict(zip(columns | map(attribute='name'), columns | map(attribute='type')))) }}
{%- endmacro -%}
