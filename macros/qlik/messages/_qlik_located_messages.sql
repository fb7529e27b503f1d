{#- The CTE `located`: what each message says about itself, and the table of its schema. -#}
{%- macro _qlik_located_messages(layout) -%}
{%- set schema_id = "coalesce(envelope_schema_id, nullif(body.headers.externalSchemaId, ''), body.schemaId)" -%}
{%- set named_schema = 'coalesce(body.lineage.schema, body.schema, body.headers.schema)' -%}
{%- set named_table = 'coalesce(body.lineage.`table`, body.`table`, body.headers.`table`)' -%}
{#- Where no schema gives the positions of the columns, the caller's list does. -#}
{%- set positions = 'sequence(1, ' ~ layout.names | length ~ ')' -%}
{%- set position_of = 'map_from_arrays(' ~ afterimage._string_array(layout.names) ~ ', ' ~ positions ~ ')' -%}
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
        {{ schema_id }} as schema_id,
        {%- if layout.schema_rows is not none %}
        message_schemas.schema_id is not null as has_schema,
        coalesce(message_schemas.schema_name, {{ named_schema }}) as schema_name,
        coalesce(message_schemas.table_name, {{ named_table }}) as table_name,
        coalesce(message_schemas.ordinals, {{ position_of }}) as ordinals,
        coalesce(message_schemas.all_ordinals, {{ positions }}) as all_ordinals,
        message_schemas.lob_columns
        {%- else %}
        {{ named_schema }} as schema_name,
        {{ named_table }} as table_name,
        {{ position_of }} as ordinals,
        {{ positions }} as all_ordinals
        {%- endif %}

    from opened_messages
    {%- if layout.schema_rows is not none %}
    left outer join (select /*+ broadcast */ * from message_schemas) as message_schemas
        on {{ schema_id }} = message_schemas.schema_id
    {%- endif %}

)
{%- endmacro -%}
