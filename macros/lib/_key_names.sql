{#- Names for the key's columns between the CTEs, chosen to avoid clashes with data columns. -#}
{%- macro _key_names(unique_key) -%}
    {%- set names = [] -%}
    {%- for key in unique_key -%}
        {%- do names.append('_key_' ~ loop.index) -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro -%}
