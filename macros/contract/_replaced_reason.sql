{#- The reject reason of a stored row that a run reads as another change. -#}
{%- macro _replaced_reason() -%}
'replaced: it is read as another change'
{%- endmacro -%}
