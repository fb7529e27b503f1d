{#- Whether a mask has the bit of a column, by the ordinals of the message's own schema. NULL without a mask, false
    if the schema has no such column. -#}
{%- macro _qlik_has_bit(mask_ordinals, column) -%}
    {{ return(
        'coalesce(array_contains(' ~ mask_ordinals ~ ', ordinals[' ~ afterimage._literal(column.name)
        ~ ']), if(' ~ mask_ordinals ~ ' is null, null, false))'
    ) }}
{%- endmacro -%}
