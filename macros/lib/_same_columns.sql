{#- NULL-safe equality of some fields of two structs. -#}
{%- macro _same_columns(left, right, columns) -%}
    {%- set conditions = [] -%}
    {%- for column in columns -%}
        {%- do conditions.append(
            left ~ '.' ~ afterimage._quote(column) ~ ' <=> ' ~ right ~ '.' ~ afterimage._quote(column)
        ) -%}
    {%- endfor -%}
    {{ return(conditions | join(' and ')) }}
{%- endmacro -%}
