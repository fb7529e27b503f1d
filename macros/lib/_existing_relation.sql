{#- A relation if it exists, else none. dbt itself looks for a name in small letters, and stops with an error at one
    that has capitals, as vendors' names may (`CDC_Crate`). -#}
{%- macro _existing_relation(relation) -%}
    {%- if relation.render() == relation.render() | lower or relation.schema | lower in afterimage._file_formats() -%}
        {{ return(load_relation(relation)) }}
    {%- endif -%}
    {{ return(relation if adapter.get_columns_in_relation(relation) else none) }}
{%- endmacro -%}
