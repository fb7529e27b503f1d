{#- The query of `dbt show`. dbt itself runs the query of the model, which for a history gives the change stream,
    and for an incremental staging model the rows that have landed since its last run. People expect the table that
    was built. -#}
{% macro get_show_sql(compiled_code, sql_header, limit) %}
    {%- set query = 'select * from ' ~ this if afterimage._has_built_rows() else compiled_code -%}
    {{ return(dbt.get_show_sql(query, sql_header, limit)) }}
{% endmacro %}


{#- Whether a history, an audit, or an incremental model that uses one of our macros has been built. -#}
{% macro _has_built_rows() %}
    {%- if model.resource_type != 'model' -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set materialized = config.get('materialized') -%}
    {%- set uses_ours = 'macro.afterimage.' in model.depends_on.macros | join(' ') -%}
    {%- set takes_in = uses_ours and materialized not in ['table', 'view', 'ephemeral'] -%}
    {{ return((materialized in ['history', 'audit'] or takes_in) and load_relation(this) is not none) }}
{% endmacro %}
