{#- The CTE `located`: what each message says about itself, and its schema with its table. -#}
{%- macro _qlik_located_messages(layout) -%}
{%- set named = {
    'schema_id': "coalesce(envelope_schema_id, nullif(body.headers.externalSchemaId, ''), body.schemaId)",
    'schema': 'coalesce(body.lineage.schema, body.schema, body.headers.schema)',
    'table': 'coalesce(body.lineage.`table`, body.`table`, body.headers.`table`)',
} -%}
{#- Where no schema gives the positions of the columns, the caller's list does. -#}
{%- set positions = 'sequence(1, ' ~ layout.names | length ~ ')' -%}
{%- set position_of = 'map_from_arrays(' ~ afterimage._string_array(layout.names) ~ ', ' ~ positions ~ ')' -%}
{% if layout.schema_rows is not none -%}
{{ afterimage._qlik_chosen_schemas(named) }},

{% endif -%}
located as (

    select
        opened_messages.message_id,
        opened_messages.arrival,
        opened_messages.message_position,
        opened_messages.is_tombstone,
        opened_messages.is_avro,
        opened_messages.avro_error,
        opened_messages.json_text,
        opened_messages.magic,
        opened_messages.type,
        opened_messages.type = 'MD'
        or (opened_messages.type is null and body.headers is null and body.schemaId is not null) as is_metadata,
        coalesce(body.headers is not null or body.data is not null or body.beforeData is not null, false) as has_body,
        upper(trim(body.headers.operation)) as operation_word,
        trim(body.headers.changeSequence) as landed_seq,
        coalesce(trim(body.headers.changeSequence) rlike '^[0-9]{35}$', false) as has_seq,
        {{ afterimage._qlik_time("nullif(trim(body.headers.`timestamp`), '')") }} as landed_time,
        nullif(trim(body.headers.`timestamp`), '') as landed_time_text,
        nullif(body.headers.transactionId, '') as transaction_id,
        nullif(trim(body.headers.changeMask), '') as change_mask,
        nullif(trim(body.headers.columnMask), '') as column_mask,
        try_cast(body.headers.transactionEventCounter as bigint) as event_counter,
        try_cast(body.headers.transactionLastEvent as boolean) as is_last_event,
        body.data,
        body.beforeData as before_data,
        {{ named.schema_id }} as schema_id,
        {%- if layout.schema_rows is not none %}
        needs_schema,
        tables,
        chosen_schema_id,
        is_newest,
        array_size(table_schemas) > 1 as is_chosen_of_several,
        message_schemas.schema_id is not null as has_schema,
        -- A chosen schema does not say which table the message is of.
        coalesce(if(needs_schema, null, message_schemas.schema_name), {{ named.schema }}) as schema_name,
        coalesce(if(needs_schema, null, message_schemas.table_name), {{ named.table }}) as table_name,
        coalesce(message_schemas.ordinals, {{ position_of }}) as ordinals,
        coalesce(message_schemas.all_ordinals, {{ positions }}) as all_ordinals,
        message_schemas.lob_columns
        {%- else %}
        {{ named.schema }} as schema_name,
        {{ named.table }} as table_name,
        {{ position_of }} as ordinals,
        {{ positions }} as all_ordinals
        {%- endif %}

    from {{ 'opened_messages' if layout.schema_rows is none else 'addressed as opened_messages' }}
    {%- if layout.schema_rows is not none %}
    left outer join (select /*+ broadcast */ * from message_schemas) as message_schemas
        on coalesce({{ named.schema_id }}, chosen_schema_id) = message_schemas.schema_id
    {%- endif %}

)
{%- endmacro -%}
