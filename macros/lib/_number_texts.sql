{#- Columns of numbers as texts of equal length that sort like the numbers; NULL for anything else. -#}
{%- macro _number_texts(columns) -%}
    {%- set number = 'try_cast({column} as bigint)' -%}
    {{ return(afterimage._each(
        columns, 'lpad(cast(if(' ~ number ~ ' >= 0, ' ~ number ~ ", null) as string), 19, '0')"
    )) }}
{%- endmacro -%}
