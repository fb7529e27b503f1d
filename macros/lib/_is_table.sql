{#- Whether a row of schemas, or a message, belongs to the table that the caller asked for: `table` or
    `schema.table`. NULL if it does not say enough. -#}
{%- macro _is_table(table, schema_name, table_name) -%}
{%- set asked = afterimage._literal(table | lower) -%}
case
            when {{ asked }} in (lower({{ table_name }}), lower(concat({{ schema_name }}, '.', {{ table_name }}))) then true
            when {{ table_name }} is null then null
            when {{ schema_name }} is null and endswith({{ asked }}, lower(concat('.', {{ table_name }}))) then null
            else false
        end
{%- endmacro -%}
