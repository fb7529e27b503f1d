{#- The columns of a row as expressions that `<=>` can compare. `types` are by name. -#}
{%- macro _comparable_columns(columns, types, prefix) -%}
    {%- set values = [] -%}
    {%- for column in columns -%}
        {%- do values.append(afterimage._comparable(prefix ~ afterimage._quote(column), types[column])) -%}
    {%- endfor -%}
    {{ return(values) }}
{%- endmacro -%}
