{#- Builds the table from a query in one statement, atomic if the format allows it. -#}
{%- macro _create_table_as(target_relation, existing_relation, properties, sql, partitioned_by=none) -%}
    {%- set create = afterimage._create_or_replace(existing_relation) -%}
    {%- do afterimage._unset_metrics(existing_relation) -%}
    {%- call statement('main') -%}
{{ create }} {{ target_relation }}
{%- if config.get('contract').enforced %}
{{ get_assert_columns_equivalent(sql) }}
{%- set sql = get_select_subquery(sql) %}
{%- endif %}
{{ file_format_clause() }}
{{ options_clause() }}
{{ afterimage._tblproperties(properties) }}
{{ partitioned_by or partition_cols(label="partitioned by") }}
{{ clustered_cols(label="clustered by") }}
{{ location_clause() }}
{{ comment_clause() }}
as
{{ sql }}
    {%- endcall -%}
{%- endmacro -%}


{#- The beginning of a statement that rebuilds a table. A table that the format cannot replace is dropped first. -#}
{%- macro _create_or_replace(existing_relation) -%}
    {%- set can_replace = config.get('file_format') in ['iceberg', 'delta'] -%}
    {%- if existing_relation is not none and not (can_replace and (
        existing_relation.is_iceberg or existing_relation.is_delta
    )) -%}
        {%- do adapter.drop_relation(existing_relation) -%}
    {%- endif -%}
    {{ return('create or replace table' if can_replace else 'create table') }}
{%- endmacro -%}


{#- A replaced table keeps its properties, and Iceberg refuses metrics of a column that is gone. -#}
{%- macro _unset_metrics(existing_relation) -%}
    {%- set metrics = [] -%}
    {%- if existing_relation is not none and existing_relation.is_iceberg -%}
        {%- for name in afterimage._table_properties(existing_relation)
            if name.startswith('write.metadata.metrics.column.') -%}
            {%- do metrics.append(afterimage._literal(name)) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if metrics -%}
        {%- do run_query('alter table ' ~ existing_relation ~ ' unset tblproperties (' ~ metrics | join(', ') ~ ')') -%}
    {%- endif -%}
{%- endmacro -%}


{#- The properties of a new table. Those of the model's config come first. -#}
{%- macro _tblproperties(properties) -%}
    {%- set assignments = [] -%}
    {%- for name, value in dict(properties, **(config.get('tblproperties') or {})).items() -%}
        {%- do assignments.append(afterimage._literal(name) ~ ' = ' ~ afterimage._literal(value | string)) -%}
    {%- endfor -%}
    {{ return('tblproperties (' ~ assignments | join(', ') ~ ')' if assignments else '') }}
{%- endmacro -%}
