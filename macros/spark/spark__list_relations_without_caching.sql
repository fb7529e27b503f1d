{#- dbt lists the tables of a schema at the start of every command. If Spark cannot say in one answer what each of
    them is, as with an Iceberg catalog, dbt-spark describes them one by one, which takes longer than many commands.
    Such a catalog holds only Iceberg tables, so their names are enough. Spark gives their schema without its
    catalog. If the target's schema is named with its catalog, dbt would find none of them by that. -#}
{% macro spark__list_relations_without_caching(schema_relation) %}
    {%- if not afterimage._is_iceberg_only(schema_relation.schema) -%}
        {{ return(dbt.spark__list_relations_without_caching(schema_relation)) }}
    {%- endif -%}
    {%- set relations = [] -%}
    {%- for namespace, name, is_temporary in run_query('show tables in ' ~ schema_relation.schema) -%}
        {%- do relations.append((
            schema_relation.schema if '.' in schema_relation.schema else namespace, name, is_temporary,
            'Type: TABLE\nProvider: iceberg'
        )) -%}
    {%- endfor -%}
    {{ return(relations) }}
{% endmacro %}


{#- A schema may be named with its catalog. -#}
{% macro _is_iceberg_only(schema) %}
    {%- if target.type != 'spark' -%}
        {{ return(false) }}
    {%- endif -%}
    {#- A query for `current_catalog()` would be the session's first job, which takes half a second. Without backquotes
        Spark takes the comment that dbt may append (`query-comment`) for a part of the name. -#}
    {%- set catalog = schema.split('.')[0] | replace('`', '') if '.' in schema
        else run_query('set `spark.sql.defaultCatalog`')[0][1] -%}
    {%- set setting = run_query('set `spark.sql.catalog.' ~ catalog ~ '`')[0][1] -%}
    {{ return(setting == 'org.apache.iceberg.spark.SparkCatalog') }}
{% endmacro %}
