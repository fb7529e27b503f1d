{#- The reject reason of a message that waits for its schema; the schema's id follows. -#}
{%- macro _qlik_no_schema() -%}
'no metadata message has the schema id: '
{%- endmacro -%}
