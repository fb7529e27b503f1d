{#- The CTE `message_schemas`: what the metadata messages say about each schema id. -#}
{%- macro _qlik_message_schemas_by_id(schema_rows) -%}
message_schemas as (

    select
        schema_id,
        max(schema_name) as schema_name,
        max(table_name) as table_name,
        max(table_version) as table_version,
        max(published_at) as published_at,
        max(data_schema) as data_schema,
        map_from_entries(collect_set(struct(column_name, ordinal))) as ordinals,
        collect_set(ordinal) as all_ordinals,
        collect_set(if(is_lob, column_name, null)) as lob_columns

    from ({{ schema_rows | indent(4) }}) as schema_rows
    where reject_reason is null
    group by schema_id

)
{%- endmacro -%}
