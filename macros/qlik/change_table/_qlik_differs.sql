{#- The condition that a column has another value than in the before-image; NULL where it is NULL in one of them. -#}
{%- macro _qlik_differs(column, types, before='before_image', after='image') -%}
    {%- set name = '.' ~ afterimage._quote(column) -%}
    {{ return(
        afterimage._comparable(after ~ name, types[column]) ~ ' <> '
        ~ afterimage._comparable(before ~ name, types[column])
    ) }}
{%- endmacro -%}
