{#- The condition that a column is NULL in an update that did not touch it; NULL where there is no mask to tell by. -#}
{%- macro _qlik_is_absent(column) -%}
    {{ return(
        '(image.' ~ afterimage._quote(column) ~ ' is null and not array_contains(flagged_columns, '
        ~ afterimage._literal(column) ~ '))'
    ) }}
{%- endmacro -%}
