{#- Names for the key's columns between the CTEs, chosen to avoid clashes with data columns. -#}
{%- macro _key_names(unique_key) -%}
    {{ return(afterimage._each(unique_key, '{key}')) }}
{%- endmacro -%}
