{#- `a.x is null or a.y is null`. -#}
{%- macro _openedge_any_null(prefix, columns) -%}
    {%- set conditions = [] -%}
    {%- for column in columns -%}
        {%- do conditions.append(prefix ~ '.' ~ afterimage._quote(column) ~ ' is null') -%}
    {%- endfor -%}
    {{ return(conditions | join(' or ')) }}
{%- endmacro -%}
