{#- The same names in the order of the columns, so that a change_id made of them does not depend on the argument's
    order. -#}
{%- macro _in_column_order(names, columns) -%}
    {{ return(columns | select('in', afterimage._match_column_case(names, columns)) | list) }}
{%- endmacro -%}
