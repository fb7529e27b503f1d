{#- Qlik metadata messages on Kafka -> one row per column of each schema. Arguments: qlik_message_schemas.yml. -#}
{%- macro qlik_message_schemas(relation, value='value') -%}
    {#- A model of its own keeps schemas whose first message has left the topic, or lands after a later one. (`init`
        calls this outside of a model.) -#}
    {%- set is_again = this is defined and afterimage._is_incremental() -%}
    {%- set columns = afterimage._relation_columns(this) if is_again else [] -%}
    {%- set is_kept = ['schema_id', 'published_at', 'reject_reason'] | reject('in', columns | map(attribute='name'))
        | list == [] -%}
    {{ return(afterimage._qlik_described_schemas(relation, value, this if is_kept else none)) }}
{%- endmacro -%}


{#- The query of `qlik_message_schemas`. `known` is a table of earlier results, if there is one. -#}
{%- macro _qlik_described_schemas(relation, value, known=none) -%}
    {%- set landing = afterimage._qlik_landing('qlik_message_schemas', relation, value) -%}
    {%- if landing is none -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set fields = {
        'schemaId': 'string',
        'lineage': 'struct<server: string, task: string, schema: string, `table`: string, tableVersion: string,'
            ~ ' `timestamp`: string>',
        'tableStructure': 'struct<tableColumns: map<string, struct<ordinal: string, type: string, length: string,'
            ~ ' `precision`: string, scale: string, primaryKeyPosition: string>>>',
        'dataSchema': 'string',
    } -%}
    {%- set published_at = afterimage._qlik_time('body.lineage.`timestamp`') -%}
    {%- set one_schema = 'if(reject_reason is null, body.schemaId, message_id), reject_reason is null' %}

with

{{ afterimage._qlik_opened_messages(relation, landing, fields) }},

-- Data messages may share the topic; qlik_messages handles them.
metadata_messages as (

    select
        message_id,
        body,
        arrival,
        case
            when avro_error is not null then concat('not an Avro message: ', avro_error)
            when is_avro and body.schemaId is null and body.lineage is null
                then 'the metadata message has no messageSchema to be read by'
            when magic <> 'atMSG' then concat('magic is not atMSG: ', magic)
            when type is null and body.schemaId is null then concat('not a JSON message: ', left(json_text, 60))
            when coalesce(body.schemaId, '') = '' then 'the metadata message has no schemaId'
            when coalesce(size(body.tableStructure.tableColumns), 0) < 1 then 'the metadata message has no tableColumns'
        end as reject_reason

    from opened_messages
    where
        not is_tombstone
        and (
            type = 'MD'
            or avro_error is not null
            or (type is null and (body.schemaId is not null or not coalesce(json_text rlike '^\\s*\\{.*\\}\\s*$', false)))
        )

),

-- An id identifies one structure, however often a task repeats its message. Messages were written by it from the first
-- time on.
ranked_messages as (

    select
        *,
        min({{ published_at }}) over (partition by {{ one_schema }}) as published_at,
        row_number() over (
            partition by {{ one_schema }}
            order by {{ published_at }} desc nulls last, arrival desc, message_id asc
        ) as newest_first

    from metadata_messages

),

described_columns as (

    select
        ranked_messages.message_id,
        ranked_messages.body.schemaId as schema_id,
        ranked_messages.body.lineage as lineage,
        ranked_messages.published_at,
        ranked_messages.body.dataSchema as data_schema,
        described.column_name,
        described.properties,
        try_cast(described.properties.ordinal as int) as ordinal,
        try_cast(described.properties.`precision` as int) as numeric_precision,
        try_cast(described.properties.scale as int) as numeric_scale,
        coalesce(
            ranked_messages.reject_reason,
            -- Positions count from 1. A mask of more columns than this is not a mask.
            if(
                try_cast(described.properties.ordinal as int) between 1 and 10000,
                null,
                concat('the column has no ordinal: ', described.column_name)
            )
        ) as reject_reason

    from ranked_messages
    lateral view outer explode(
        if(reject_reason is null, body.tableStructure.tableColumns, null)
    ) described as column_name, properties
    where ranked_messages.newest_first = 1

)

select
    md5(to_json(named_struct(
        'id', if(reject_reason is null, schema_id, message_id), 'column', column_name, 'reason', reject_reason
    ))) as schema_column_id,
    schema_id,
    lineage.server as server,
    lineage.task as task,
    lineage.schema as schema_name,
    lineage.`table` as table_name,
    try_cast(lineage.tableVersion as int) as table_version,
    {{ 'least(described_columns.published_at, known_schemas.published_at) as' if known }} published_at,
    column_name,
    ordinal,
    properties.type as data_type,
    try_cast(properties.length as bigint) as length,
    numeric_precision,
    numeric_scale,
    try_cast(properties.primaryKeyPosition as int) as primary_key_position,
    if(
        reject_reason is null,
        {{ afterimage._qlik_spark_type() | indent(8) }},
        null
    ) as spark_type,
    if(reject_reason is null, coalesce(upper(properties.type) rlike '^ *(BLOB|CLOB|NCLOB)', false), null) as is_lob,
    data_schema,
    reject_reason

from described_columns
{%- if known %}
left outer join (
    select schema_id as known_id, min(published_at) as published_at
    from {{ known }}
    where reject_reason is null
    group by schema_id
) as known_schemas on described_columns.schema_id = known_schemas.known_id
{%- endif %}
{%- endmacro -%}


{#- The Spark type of a column's Qlik type (Qlik, "Kafka target data types"). Nothing is lost: values without a Spark
    type (times, numerics of more than 38 digits) stay texts. -#}
{%- macro _qlik_spark_type() -%}
case upper(regexp_extract(properties.type, '^ *([A-Za-z0-9_]+)', 1))
    when 'BOOLEAN' then 'boolean'
    when 'INT1' then 'tinyint'
    when 'INT2' then 'smallint'
    when 'INT4' then 'int'
    when 'INT8' then 'bigint'
    when 'UINT1' then 'smallint'
    when 'UINT2' then 'int'
    when 'UINT4' then 'bigint'
    when 'UINT8' then 'decimal(20,0)'
    when 'REAL4' then 'float'
    when 'REAL8' then 'double'
    when 'NUMERIC'
        then if(
            numeric_precision between 1 and 38 and coalesce(numeric_scale, 0) between 0 and numeric_precision,
            concat('decimal(', numeric_precision, ',', coalesce(numeric_scale, 0), ')'),
            'string'
        )
    when 'DATE' then 'date'
    when 'DATETIME' then 'timestamp'
    when 'TIMESTAMP' then 'timestamp'
    when 'BYTES' then 'binary'
    when 'BLOB' then 'binary'
    else 'string'
end
{%- endmacro -%}
