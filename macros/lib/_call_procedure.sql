{#- Calls one of Iceberg's procedures for a table. A catalog has procedures for its own tables only, and the schema may
    begin with another catalog than the session's. -#}
{%- macro _call_procedure(procedure, relation, arguments='') -%}
    {%- set first = relation.schema.split('.')[0] -%}
    {%- set is_catalog = '.' in relation.schema
        and run_query('set `spark.sql.catalog.' ~ first ~ '`')[0][1] != '<undefined>' -%}
    {%- do run_query(
        'call ' ~ (first ~ '.' if is_catalog else '') ~ 'system.' ~ procedure ~ '(table => '
        ~ afterimage._literal(relation | string) ~ arguments ~ ')'
    ) -%}
{%- endmacro -%}
