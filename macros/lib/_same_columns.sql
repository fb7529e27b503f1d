{#- NULL-safe equality of some fields of two structs. -#}
{%- macro _same_columns(left, right, columns) -%}
    {{ return(afterimage._each(columns, left ~ '.{column} <=> ' ~ right ~ '.{column}') | join(' and ')) }}
{%- endmacro -%}
