{#- A list of {name, type} as it stands in a model. -#}
{%- macro _scaffold_column_list(columns) -%}
    {%- set lines = [] -%}
    {%- for column in columns -%}
        {%- set name = afterimage._literal(column.name) -%}
        {%- do lines.append("        {'name': " ~ name ~ ", 'type': '" ~ column.type ~ "'},") -%}
    {%- endfor -%}
    {{ return('[\n' ~ lines | join('\n') ~ '\n    ]') }}
{%- endmacro -%}
