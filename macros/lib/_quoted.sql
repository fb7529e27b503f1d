{#- The columns, quoted, each after a prefix such as `image.`. -#}
{%- macro _quoted(columns, prefix='') -%}
    {%- set quoted = [] -%}
    {%- for column in columns -%}
        {%- do quoted.append(prefix ~ afterimage._quote(column)) -%}
    {%- endfor -%}
    {{ return(quoted) }}
{%- endmacro -%}
