{#- The columns, quoted, each behind a prefix such as `image.`. -#}
{%- macro _quoted(columns, prefix='') -%}
    {%- set quoted = [] -%}
    {%- for column in columns -%}
        {%- do quoted.append(prefix ~ afterimage._quote(column)) -%}
    {%- endfor -%}
    {{ return(quoted) }}
{%- endmacro -%}
