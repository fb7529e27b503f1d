{#- Why a row's kind cannot be read, as branches of a `case`. -#}
{%- macro _openedge_unread_reasons() -%}
when not has_seq
    then concat('_Change-Sequence is not a whole number: ', coalesce(concat('"', sequence, '"'), 'NULL'))
when kind = 'unknown'
    then concat('unknown operation: ', coalesce(concat('"', operation, '"'), 'NULL'))
{%- endmacro -%}
