{#- The names that the key's columns have between the CTEs, so that no data column's name is in the way. -#}
{%- macro _key_names(unique_key) -%}
    {%- set names = [] -%}
    {%- for key in unique_key -%}
        {%- do names.append('_key_' ~ loop.index) -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro -%}
