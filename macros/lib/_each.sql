{#- A piece of SQL for each column: the template with the column in place of `{column}`, its name as a literal in place
    of `{name}`, and its name from `_key_names` in place of `{key}`. -#}
{%- macro _each(columns, template) -%}
    {%- set pieces = [] -%}
    {%- for column in columns -%}
        {%- do pieces.append(template.format(
            column=afterimage._quote(column), name=afterimage._literal(column), key='_key_' ~ loop.index
        )) -%}
    {%- endfor -%}
    {{ return(pieces) }}
{%- endmacro -%}
