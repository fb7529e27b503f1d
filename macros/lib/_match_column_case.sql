{#- Names as the columns that they refer to are spelled. -#}
{%- macro _match_column_case(names, columns) -%}
    {%- set spelled = [] -%}
    {%- for name in names -%}
        {%- do spelled.append(columns[(columns | map('lower') | list).index(name | lower)]) -%}
    {%- endfor -%}
    {{ return(spelled) }}
{%- endmacro -%}
