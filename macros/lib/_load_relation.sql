{#- dbt's `load_relation`, for names with capitals too (`CDC_Crate`). dbt looks for these in small letters, and stops
    with an error when it finds the capitals. An ephemeral model has no schema and no table. -#}
{%- macro _load_relation(relation) -%}
    {%- if relation.schema is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if relation.render() == relation.render() | lower or relation.schema | lower in afterimage._file_formats() -%}
        {{ return(load_relation(relation)) }}
    {%- endif -%}
    {{ return(relation if adapter.get_columns_in_relation(relation) else none) }}
{%- endmacro -%}
