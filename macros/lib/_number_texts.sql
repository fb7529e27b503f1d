{#- Columns with numbers as texts of equal length, which sort as the numbers do; NULL for anything else. -#}
{%- macro _number_texts(columns) -%}
    {%- set texts = [] -%}
    {%- for column in afterimage._quoted(columns) -%}
        {%- set number = 'try_cast(' ~ column ~ ' as bigint)' -%}
        {%- do texts.append('lpad(cast(if(' ~ number ~ ' >= 0, ' ~ number ~ ", null) as string), 19, '0')") -%}
    {%- endfor -%}
    {{ return(texts) }}
{%- endmacro -%}
