{#- Why nobody can tell what a row is, as branches of a `case`. -#}
{%- macro _openedge_unread_reasons() -%}
when not has_seq
    then concat('_Change-Sequence is not a whole number: ', coalesce(concat('"', sequence, '"'), 'NULL'))
when kind = 'unknown'
    then concat('unknown operation: ', coalesce(concat('"', operation, '"'), 'NULL'))
{%- endmacro -%}
