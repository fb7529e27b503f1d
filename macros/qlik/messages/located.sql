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
        {{ afterimage._qlik_mask('changeMask', layout) }} as change_mask,
        {{ afterimage._qlik_mask('columnMask', layout) }} as column_mask,
        try_cast(body.headers.transactionEventCounter as bigint) as event_counter,
        try_cast(body.headers.transactionLastEvent as boolean) as is_last_event,
        body.data,
        body.beforeData as before_data,
        {%- if layout.usual %}
        is_usual,
        usual_data,
        usual_before,
        {%- endif %}
        {{ named.schema_id }} as schema_id,
        {%- if layout.schema_rows is not none %}
        needs_schema,
        choice.tables,
        choice.schema_id as chosen_schema_id,
        choice.is_newest,
        choice.is_doubtful,
        message_schemas.schema_id is not null as has_schema,
        -- A chosen schema does not say which table the message is of.
        coalesce(if(needs_schema, null, message_schemas.schema_name), {{ named.schema }}) as schema_name,
        coalesce(if(needs_schema, null, message_schemas.table_name), {{ named.table }}) as table_name,
        coalesce(message_schemas.ordinals, {{ position_of }}) as ordinals,
        coalesce(message_schemas.all_ordinals, {{ positions }}) as all_ordinals,
        coalesce(message_schemas.is_as_declared, true) as is_as_declared,
        message_schemas.lob_columns
        {%- else %}
        {{ named.schema }} as schema_name,
        {{ named.table }} as table_name,
        {{ position_of }} as ordinals,
        {{ positions }} as all_ordinals,
        true as is_as_declared
        {%- endif %}

    from {{ 'opened_messages' if layout.schema_rows is none else 'addressed as opened_messages' }}
    {%- if layout.schema_rows is not none %}
    left outer join (select /*+ broadcast */ * from message_schemas) as message_schemas
        on coalesce({{ named.schema_id }}, choice.schema_id) = message_schemas.schema_id
    {%- endif %}

)
{%- endmacro -%}


{#- A mask of a message as a hex numeral; NULL if it is empty. In Avro it may be bytes, and no page says which comes
    first: the order counts in which `columnMask` has no bit past the last column and has the key's bits. If both orders
    fit, or without that mask, the lowest byte comes first, as in a change table. -#}
{%- macro _qlik_mask(header, layout) -%}
    {%- set mask = 'body.headers.' ~ header -%}
    {%- if not layout.has_avro -%}
        {{ return('nullif(trim(' ~ mask ~ "), '')") }}
    {%- endif -%}
    {%- set keys = [] -%}
    {%- for name in layout.unique_key -%}
        {%- do keys.append('message_schemas.ordinals[' ~ afterimage._literal(name) ~ ']') -%}
    {%- endfor -%}
    {%- set is_high_first = afterimage._mask_is_high_first('body.headers.columnMask', 'last_ordinal', keys) -%}
    {{ return(
        'nullif(if(opened_messages.is_avro and has_masks_of_bytes and length(' ~ mask ~ ') <= 16384'
        ~ ' and not ' ~ is_high_first ~ ', ' ~ afterimage._turned_bytes(mask, layout.names | length)
        ~ ', trim(' ~ mask ~ ")), '')"
    ) }}
{%- endmacro -%}


{#- The CTEs `schemas_of_tables` and `addressed`. A message may have a mask but name no schema. If its table has one
    schema, that one reads it. If it has several, the newest one published by the message's time does. If none was
    there by then, the first one does: the right one may be gone. If the message does not name its table either, it is
    of the only table that the metadata messages describe. `named` has SQL for what a message names.

    `addressed` adds to `opened_messages`:
    - `needs_schema`: the message has a mask and names no schema,
    - `choice`: then the `schema_id` that was chosen; `is_newest`: whether it was there by the message's time;
      `is_doubtful`: whether others may be meant; `tables`: how many tables the schemas are of that it may have. -#}
{%- macro _qlik_chosen_schemas(named) -%}
{%- set needs_schema -%}
{{ named.schema_id }} is null
        and nullif(trim(concat_ws('', body.headers.changeMask, body.headers.columnMask)), '') is not null
{%- endset -%}
{%- set header_time = afterimage._qlik_time("nullif(trim(body.headers.`timestamp`), '')") -%}
{%- set table_schemas -%}
filter(schemas_of_tables.schemas, s -> coalesce(lower(s.schema_name) = lower({{ named.schema }}), true))
{%- endset -%}
{%- set tables -%}
array_size(array_distinct(
    transform(table_schemas, s -> struct(lower(s.schema_name) as schema_name, lower(s.table_name) as table_name))
))
{%- endset -%}
{#- One task writes data and schema messages, so their Kafka times are comparable. -#}
{%- set written_at -%}
coalesce(
    arrival.landed_at,
    if({{ header_time }} >= timestamp '1970-01-02 00:00:00', {{ header_time }}, null),
    {{ afterimage._sequence_time('trim(body.headers.changeSequence)') | indent(4) }}
)
{%- endset -%}
{%- set choice -%}
struct(
    tables,
    is_newest,
    array_size(table_schemas) > 1 or not is_newest as is_doubtful,
    if(
        tables = 1,
        if(is_newest, get(schemas_by_then, array_size(schemas_by_then) - 1), get(table_schemas, 0)).schema_id,
        null
    ) as schema_id
)
{%- endset -%}
schemas_of_tables as (

    select
        lower(table_name) as table_key,
        -- A task that is set up again may count its versions from 1 again.
        sort_array(collect_list(struct(published_at, table_version, schema_id, schema_name, table_name))) as schemas

    from message_schemas
    where table_name is not null
    group by grouping sets ((lower(table_name)), ())

),

addressed as (

    select
        opened_messages.*,
        {{ needs_schema }} as needs_schema,
        if(needs_schema, {{ afterimage._let_all(
            [
                ['table_schemas', table_schemas],
                ['tables', tables],
                ['written_at', written_at],
                ['schemas_by_then', 'filter(table_schemas, s -> coalesce(s.published_at <= written_at, true))'],
                ['is_newest', 'array_size(schemas_by_then) > 0'],
            ],
            choice
        ) | indent(8) }}, null) as choice

    from opened_messages
    left outer join (select /*+ broadcast */ * from schemas_of_tables) as schemas_of_tables
        on {{ needs_schema }} and lower({{ named.table }}) <=> schemas_of_tables.table_key

)
{%- endmacro -%}
