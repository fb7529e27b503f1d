{#- Columns as a list for SELECT, GROUP BY or PARTITION BY. -#}
{%- macro _quoted_list(columns) -%}
    {{ return(afterimage._quoted(columns) | join(', ')) }}
{%- endmacro -%}
