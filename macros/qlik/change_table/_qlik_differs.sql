{#- The condition that a column's value differs from the before-image; NULL if either is NULL. -#}
{%- macro _qlik_differs(column, types, after='image') -%}
    {%- set name = '.' ~ afterimage._quote(column) -%}
    {{ return(
        afterimage._comparable(after ~ name, types[column]) ~ ' <> '
        ~ afterimage._comparable('before_image' ~ name, types[column])
    ) }}
{%- endmacro -%}
