{#- The reject reason of a message that waits for its schema; the schema's id follows. -#}
{%- macro _debezium_no_schema() -%}
'no schema has the id: '
{%- endmacro -%}
