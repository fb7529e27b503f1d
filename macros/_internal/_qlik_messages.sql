{#- The columns of a Kafka landing: SQL expressions by name, a typed NULL for one that the relation does not have.
    Returns none while parsing. -#}
{%- macro _qlik_landing(macro_name, relation, value) -%}
    {%- do afterimage._check_text(macro_name, 'value', value) -%}
    {%- if not execute -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do found.update({column.name | lower: column}) -%}
    {%- endfor -%}
    {%- if not found -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the columns of " ~ relation ~ " cannot be read. It must be a table that exists"
            ~ " (in a unit test: one in the schema of the model or of the target)."
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_known(macro_name, 'value', [value], found.values() | map(attribute='name') | list) -%}
    {%- set value_type = found[value | lower].type -%}
    {%- if value_type not in ['string', 'binary'] -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `value` must be a column of the type string (JSON) or binary (Avro). Got: "
            ~ value ~ " " ~ value_type
        ) -%}
    {%- endif -%}
    {%- set landing = {
        'value': afterimage._quote(found[value | lower].name),
        'is_binary': value_type == 'binary',
    } -%}
    {%- for name, type in {
        'key': 'string', 'topic': 'string', 'partition': 'int', 'offset': 'bigint', 'timestamp': 'timestamp'
    }.items() -%}
        {%- set expression = afterimage._quote(found[name].name) if name in found else 'null' -%}
        {%- if name == 'key' and name in found and found[name].type == 'binary' -%}
            {%- set expression = 'hex(' ~ expression ~ ')' -%}
        {%- endif -%}
        {%- do landing.update({name: 'cast(' ~ expression ~ ' as ' ~ type ~ ')'}) -%}
    {%- endfor -%}
    {{ return(landing) }}
{%- endmacro -%}


{#- The CTEs from the landing to `opened_messages`, one row a landed message: what the envelope says, and `body`, a
    struct of `fields`, which is what the JSON format has in `message` (or at the top where the task writes no
    envelope). Avro becomes the same JSON first. With `schemas`, the name of a CTE, Avro payloads are read by the schema
    of their id. (The CTEs are few, because Spark takes long to analyse a long chain of them.) -#}
{%- macro _qlik_opened_messages(relation, landing, fields, schemas=none, read_from=none) -%}
    {%- set types = [] -%}
    {%- set bare = [] -%}
    {%- for name, type in fields.items() -%}
        {%- do types.append(afterimage._quote(name) ~ ' ' ~ type) -%}
        {%- do bare.append(afterimage._literal(name) ~ ', parsed.' ~ afterimage._quote(name)) -%}
    {%- endfor -%}
    {%- set body = types | join(', ') -%}
    {%- set parsed_as = afterimage._literal(
        'magic string, type string, messageSchemaId string, message struct<' ~ body ~ '>, ' ~ body
    ) -%}
    {#- A struct that a UDF gives is never NULL itself. -#}
    {%- set is_json = 'envelope.type is null and envelope.error is null' -%}
    {%- set landed -%}
{{ landing.value }} as value,
        {{ landing.key }} as message_key,
        {{ landing.topic }} as topic,
        {{ landing.timestamp }} as landed_at,
        {{ landing.partition }} as landed_partition,
        {{ landing.offset }} as landed_offset
    {%- endset -%}
    {%- set new_messages -%}
from {{ relation }}
    {%- if read_from is not none %}

    -- A message is read if it may be from there on: of the runs of 35 digits in it, one is its changeSequence. One
    -- without any (full load, malformed, NULL) has no place in time, so all of those are read again.
    where coalesce(
        array_max(regexp_extract_all(
            {{ "decode(" ~ landing.value ~ ", 'ISO-8859-1')" if landing.is_binary else landing.value }},
            '[0-9]{35}', 0
        )) >= '{{ read_from }}',
        true
    )
    {%- endif %}
    {%- endset -%}
{% if landing.is_binary %}
-- JSON may land as bytes too, since that is what a Kafka source gives: a brace tells it from Avro.
envelopes as (

    select
        {{ landed }},
        decode_avro_message(if(substring({{ landing.value }}, 1, 1) = X'7B', null, {{ landing.value }})) as envelope

    {{ new_messages }}

),

payloads as (

    select
        envelopes.*,
        {%- if schemas is none %}
        cast(null as struct<message: string, error: string>) as payload
        {%- else %}
        decode_avro_message(
            if(envelopes.envelope.type = 'DT' and avro_schemas.data_schema is not null, envelopes.value, null),
            avro_schemas.data_schema
        ) as payload
        {%- endif %}

    from envelopes
    {%- if schemas is not none %}
    left outer join (select /*+ broadcast */ schema_id, data_schema from {{ schemas }}) as avro_schemas
        on envelopes.envelope.schema_id = avro_schemas.schema_id
    {%- endif %}

),

parsed_messages as (

    select
        *,
        from_json(
            {{ afterimage._qlik_exact_json(
                'if(' ~ is_json ~ ', cast(value as string), coalesce(payload.message, envelope.message))'
            ) | indent(12) }},
            {{ parsed_as }}
        ) as parsed

    from payloads

),
{% else %}
parsed_messages as (

    select
        {{ landed }},
        from_json(
            {{ afterimage._qlik_exact_json(landing.value) | indent(12) }},
            {{ parsed_as }}
        ) as parsed

    {{ new_messages }}

),
{% endif %}
opened_messages as (

    select
        value is null as is_tombstone,
        -- What a message is called must not depend on its schema, which may come later.
        if(
            value is null,
            concat('tombstone-', md5(to_json(struct(topic, message_key)))),
            md5(value)
        ) as message_id,
        -- NULLs sort first: what has no time came first.
        struct(landed_at, landed_partition, landed_offset) as arrival,
        {%- if landing.is_binary %}
        envelope.type is not null as is_avro,
        coalesce(payload.error, envelope.error) as avro_error,
        if({{ is_json }}, cast(value as string), null) as json_text,
        coalesce(envelope.type, parsed.type) as type,
        coalesce(envelope.schema_id, parsed.messageSchemaId) as envelope_schema_id,
        {%- else %}
        false as is_avro,
        cast(null as string) as avro_error,
        value as json_text,
        parsed.type,
        parsed.messageSchemaId as envelope_schema_id,
        {%- endif %}
        parsed.magic,
        coalesce(parsed.message, named_struct({{ bare | join(', ') }})) as body

    from parsed_messages

)
{%- endmacro -%}


{#- A JSON text in which no number loses a digit. Spark reads one with a fraction as a double; where there may be one,
    it is made a text first. (Qlik writes decimals as texts, so hardly any message needs it.) -#}
{%- macro _qlik_exact_json(text) -%}
coalesce(
    quote_json_numbers(if({{ text }} rlike ':\\s*-?[0-9]+[.eE][-+.eE0-9]*\\s*[,}\\]]', {{ text }}, null)),
    {{ text }}
)
{%- endmacro -%}


{#- The fields of a metadata message, as _qlik_opened_messages wants them. -#}
{%- macro _qlik_metadata_fields() -%}
    {{ return({
        'schemaId': 'string',
        'lineage': 'struct<server: string, task: string, schema: string, `table`: string, tableVersion: string,'
            ~ ' `timestamp`: string>',
        'tableStructure': 'struct<tableColumns: map<string, struct<ordinal: string, type: string, length: string,'
            ~ ' `precision`: string, scale: string, primaryKeyPosition: string>>>',
        'dataSchema': 'string',
    }) }}
{%- endmacro -%}


{#- The fields of a data message that are read. Any other does no harm. -#}
{%- macro _qlik_data_fields() -%}
    {{ return({
        'schema': 'string',
        'table': 'string',
        'headers': 'struct<operation: string, changeSequence: string, `timestamp`: string, transactionId: string,'
            ~ ' changeMask: string, columnMask: string, externalSchemaId: string, transactionEventCounter: string,'
            ~ ' transactionLastEvent: string, schema: string, `table`: string>',
        'data': 'map<string, string>',
        'beforeData': 'map<string, string>',
        'schemaId': 'string',
        'lineage': 'struct<schema: string, `table`: string>',
    }) }}
{%- endmacro -%}


{#- The time of a text as Qlik writes it, in UTC though nothing in it says so. -#}
{%- macro _qlik_time(text) -%}
cast(if({{ text }} rlike '(Z|[+-][0-9]{2}:?[0-9]{2})$', {{ text }}, concat({{ text }}, 'Z')) as timestamp)
{%- endmacro -%}


{#- The Spark type of a Qlik type (Qlik, "Kafka target data types"). Nothing is lost: what Spark has no type for (times,
    numerics of more than 38 digits) stays a text. -#}
{%- macro _qlik_spark_type(data_type, precision, scale) -%}
case upper(regexp_extract({{ data_type }}, '^ *([A-Za-z0-9_]+)', 1))
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
            {{ precision }} between 1 and 38 and coalesce({{ scale }}, 0) between 0 and {{ precision }},
            concat('decimal(', {{ precision }}, ',', coalesce({{ scale }}, 0), ')'),
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


{#- SQL that gives the rows of qlik_message_schemas: the relation itself where it is such a model, or made of its
    metadata messages. None while parsing, or without metadata. -#}
{%- macro _qlik_schema_rows(metadata) -%}
    {%- if metadata is none or not execute -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set names = afterimage._relation_columns(metadata) | map(attribute='name') | map('lower') | list -%}
    {%- if 'schema_id' in names and 'data_schema' in names -%}
        {{ return('select * from ' ~ metadata) }}
    {%- endif -%}
    {{ return(afterimage.qlik_message_schemas(metadata)) }}
{%- endmacro -%}


{#- Whether a row of schemas, or a message, is of the table that the caller asked for: `table` or `schema.table`. -#}
{%- macro _qlik_is_table(table, schema_name, table_name) -%}
lower({{ afterimage._literal(table) }}) in (
    lower({{ table_name }}), lower(concat({{ schema_name }}, '.', {{ table_name }}))
)
{%- endmacro -%}


{#- The data columns: a list of {name, type, lob} in ordinal order. What the caller leaves out comes from the newest
    metadata message of the table, which is read while compiling, since a struct's types are fixed. -#}
{%- macro _qlik_message_columns(columns, metadata, schema_rows, table) -%}
    {%- set macro_name = 'qlik_messages' -%}
    {%- set allowed = [
        'string', 'varchar', 'char', 'boolean', 'tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint',
        'long', 'float', 'real', 'double', 'decimal', 'dec', 'numeric', 'date', 'timestamp', 'timestamp_ltz',
        'timestamp_ntz', 'binary'
    ] -%}
    {%- if columns is none and metadata is none -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` must be a list of {name, type} in ordinal order, or `metadata` must be given, from"
            ~ " which they are then taken. Got: none of both"
        ) -%}
    {%- endif -%}
    {%- set given = [] -%}
    {%- set is_list = columns is none or (columns is sequence and columns is not string and columns is not mapping) -%}
    {%- for column in (columns or []) if is_list -%}
        {%- do given.append({'name': column} if column is string else column) -%}
    {%- endfor -%}
    {%- if not is_list or (columns is not none and not columns)
        or given | reject('mapping') | list or given | rejectattr('name', 'string') | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` must be a list of {name, type} in ordinal order, with at least one. Got: " ~ columns
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_names(macro_name, 'columns', given | map(attribute='name') | list) -%}
    {%- for column in given -%}
        {%- set type = column.type if column.type is defined else none -%}
        {%- if type is not none and (type is not string or type.split('(')[0] | trim | lower not in allowed) -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": `columns` gives " ~ column.name ~ " a type that must be one of " ~ allowed ~ ". Got: "
                ~ type
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not execute -%}
        {{ return([]) }}
    {%- endif -%}

    {%- set untyped = [] -%}
    {%- for column in given if column.type is not defined or column.type is none -%}
        {%- do untyped.append(column.name) -%}
    {%- endfor -%}
    {%- set known = {} -%}
    {%- if columns is none or untyped -%}
        {%- set known = afterimage._qlik_known_columns(metadata, schema_rows, table, untyped) -%}
    {%- endif -%}
    {%- set typed = [] -%}
    {%- for column in (known.values() | list if columns is none else given) -%}
        {%- set found = known.get(column.name | lower, {}) -%}
        {%- do typed.append({
            'name': column.name,
            'type': (column.type if column.type is defined and column.type else found.get('type')) | lower,
            'lob': column.lob if column.lob is defined else found.get('lob', false),
        }) -%}
    {%- endfor -%}
    {{ return(typed) }}
{%- endmacro -%}


{#- The columns of a table's newest schema by lower-case name, and of older ones those in `wanted`. -#}
{%- macro _qlik_known_columns(metadata, schema_rows, table, wanted) -%}
    {%- set macro_name = 'qlik_messages' -%}
    {%- set wish = 'the type of ' ~ (wanted | join(', ')) if wanted else 'the columns' -%}
    {%- if metadata is none -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` leaves out " ~ wish ~ ", so `metadata` must be given, from which it is then taken."
            ~ " Got: none"
        ) -%}
    {%- endif -%}
    {%- if metadata is not string and metadata.identifier.startswith('__dbt__cte__') -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ wish ~ " cannot be known while a unit test compiles: say it in `columns`."
        ) -%}
    {%- endif -%}
    {%- set query -%}
        select distinct
            schema_name, table_name, table_version, published_at, schema_id, column_name, spark_type, is_lob, ordinal
        from ({{ schema_rows }}) as schema_rows
        where
            reject_reason is null
            {%- if table is not none %}
            and {{ afterimage._qlik_is_table(table, 'schema_name', 'table_name') }}
            {%- endif %}
        order by
            table_version desc nulls last, published_at desc nulls last, schema_id desc, ordinal asc, column_name asc
    {%- endset -%}
    {%- set found = namespace(newest=none, tables=[]) -%}
    {%- set known = {} -%}
    {%- for row in run_query(query).rows -%}
        {%- set found.newest = found.newest or row['schema_id'] -%}
        {%- set name = (row['schema_name'] ~ '.' ~ row['table_name']) | lower -%}
        {%- if name not in found.tables -%}
            {%- do found.tables.append(name) -%}
        {%- endif -%}
        {%- set column = row['column_name'] -%}
        {%- if column | lower not in known
            and (row['schema_id'] == found.newest or column | lower in wanted | map('lower')) -%}
            {%- do known.update({
                column | lower: {'name': column, 'type': row['spark_type'], 'lob': row['is_lob']}
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if found.tables | length > 1 -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ metadata ~ " describes several tables, so `table` must say whose columns these are: one of "
            ~ found.tables ~ ". Got: " ~ table
        ) -%}
    {%- endif -%}
    {%- for name in wanted if name | lower not in known -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the type of the column " ~ name ~ " is not known: no metadata message in " ~ metadata
            ~ (" of the table " ~ table if table else "") ~ " has it. Say it in `columns`."
        ) -%}
    {%- endfor -%}
    {%- if not known -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": no metadata message in " ~ metadata ~ (" of the table " ~ table if table else "")
            ~ " is there yet, so the columns are not known. Say them in `columns`."
        ) -%}
    {%- endif -%}
    {{ return(known) }}
{%- endmacro -%}


{#- A value of a message, which is a text, as the column's type; NULL where it is none. -#}
{%- macro _qlik_cast(text, type) -%}
    {%- if type in ['string'] -%}
        {{ return(text) }}
    {%- elif type == 'binary' -%}
        {{ return('unhex(' ~ text ~ ')') }}
    {%- endif -%}
    {{ return('cast(' ~ text ~ ' as ' ~ type ~ ')') }}
{%- endmacro -%}


{#- Whether a text that is not NULL is no value of the type, or would lose something; none if every text is one. -#}
{%- macro _qlik_misfit(text, type) -%}
    {%- set base = type.split('(')[0] | trim -%}
    {%- set cast_text = afterimage._qlik_cast(text, type) -%}
    {%- if base in ['string', 'varchar', 'char'] -%}
        {{ return(none) }}
    {%- elif base in ['decimal', 'dec', 'numeric'] -%}
        {%- set parts = (type ~ '(10,0)').split('(')[1].split(')')[0].split(',') -%}
        {%- set scale = parts[1] | int if parts | length > 1 else 0 -%}
        {%- set widest = 'decimal(38,' ~ (38 - (parts[0] | int) + scale) ~ ')' -%}
        {{ return('coalesce(' ~ cast_text ~ ' <> cast(' ~ text ~ ' as ' ~ widest ~ '), true)') }}
    {%- elif base in ['tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint', 'long'] -%}
        {{ return('(' ~ cast_text ~ " is null or not " ~ text ~ " rlike '^\\\\s*[-+]?[0-9]+([.]0*)?\\\\s*$')") }}
    {%- elif base == 'date' -%}
        {{ return('coalesce(cast(' ~ cast_text ~ ' as timestamp) <> cast(' ~ text ~ ' as timestamp), true)') }}
    {%- elif base == 'binary' -%}
        {{ return('(' ~ cast_text ~ ' is null or length(' ~ text ~ ') % 2 = 1)') }}
    {%- endif -%}
    {{ return(cast_text ~ ' is null') }}
{%- endmacro -%}


{#- A struct of the data columns from a map of texts. `filled` gives another map for columns that are missing here. -#}
{%- macro _qlik_image(columns, values, fill_from=none, filled=[]) -%}
named_struct(
    {%- for column in columns %}
    {%- set text = values ~ '[' ~ afterimage._literal(column.name) ~ ']' %}
    {%- if column.name in filled %}
    {%- set text = 'coalesce(' ~ text ~ ', ' ~ fill_from ~ '[' ~ afterimage._literal(column.name) ~ '])' %}
    {%- endif %}
    {{ afterimage._literal(column.name) }}, {{ afterimage._qlik_cast(text, column.type) }}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)
{%- endmacro -%}


{#- What is wrong with the values of a map: an array of texts, empty if nothing is. -#}
{%- macro _qlik_misfits(columns, values, what) -%}
    {%- set checks = [] -%}
    {%- for column in columns -%}
        {%- set text = values ~ '[' ~ afterimage._literal(column.name) ~ ']' -%}
        {%- set misfit = afterimage._qlik_misfit(text, column.type) -%}
        {%- if misfit is not none -%}
            {%- do checks.append(
                'if(' ~ text ~ ' is not null and ' ~ misfit ~ ', concat('
                ~ afterimage._literal(column.name ~ what ~ ' "') ~ ', left(' ~ text ~ ', 60), '
                ~ afterimage._literal('" (' ~ column.type ~ ')') ~ '), null)'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not checks -%}
        {{ return("cast(array() as array<string>)") }}
    {%- endif -%}
    {{ return('array_compact(array(' ~ checks | join(', ') ~ '))') }}
{%- endmacro -%}


{#- Where an incremental run starts to read: a changeSequence, or none for all. Messages that were held back are read
    again, and everything is where a schema has come that a message waited for: it may have any place. -#}
{%- macro _qlik_messages_start(schema_rows, hold_back_hours) -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set hours = afterimage._setting('afterimage_lookback_hours') -%}
    {%- do afterimage._check_number('qlik_messages', 'var afterimage_lookback_hours', hours) -%}
    {%- set query -%}
        select
            {%- if schema_rows is not none %}
            if(
                count_if(
                    came.schema_id is not null
                    and (
                        staged.reject_reason = concat({{ afterimage._qlik_no_schema() }}, staged.schema_id)
                        or array_contains(staged.warnings, concat({{ afterimage._qlik_no_schema() }}, staged.schema_id))
                    )
                ) > 0,
                null,
            {%- else %}
            (
            {%- endif %}
                concat(
                    date_format(
                        least(
                            {{ afterimage._qlik_seq_time('max(if(reject_reason is null, change_seq, null))') }}
                            - interval {{ hours }} hours,
                            {{ afterimage._qlik_seq_time(
                                "min(if(reject_reason like 'held back:%', change_seq, null))"
                            ) }} - interval {{ hold_back_hours }} hours
                        ),
                        'yyyyMMddHHmmss'
                    ),
                    repeat('0', 21)
                )
            ) as read_from
        from {{ this }} as staged
        {%- if schema_rows is not none %}
        left outer join (
            select distinct schema_id
            from ({{ schema_rows }}) as schema_rows
            where reject_reason is null
        ) as came
            on staged.schema_id = came.schema_id
        {%- endif %}
    {%- endset -%}
    {{ return(run_query(query).columns[0].values()[0]) }}
{%- endmacro -%}


{#- What a message says that waits for its schema; the schema's id follows. -#}
{%- macro _qlik_no_schema() -%}
'no metadata message has the schema id: '
{%- endmacro -%}


{#- Whether a mask has the bit of a column, by the ordinals of the message's own schema. NULL where there is no mask,
    false where the schema has no such column. -#}
{%- macro _qlik_has_bit(mask_ordinals, column) -%}
    {{ return(
        'coalesce(array_contains(' ~ mask_ordinals ~ ', ordinals[' ~ afterimage._literal(column.name)
        ~ ']), if(' ~ mask_ordinals ~ ' is null, null, false))'
    ) }}
{%- endmacro -%}


{#- The columns that changed, in their order. LOBs have no bit in changeMask: whether one changed is seen from its
    values, where both are there. -#}
{%- macro _qlik_message_changed(columns, with_schemas) -%}
array_compact(array(
    {%- for column in columns %}
    {%- set name = afterimage._literal(column.name) %}
    if(
        {{ afterimage._qlik_has_bit('changed_ordinals', column) }}
        {%- if column.lob or with_schemas %}
        or (
            {{ afterimage._qlik_is_lob(column, with_schemas) }}
            and if(
                operation_word = 'UPDATE',
                map_contains_key(data, {{ name }}) and map_contains_key(before_data, {{ name }})
                and not data[{{ name }}] <=> before_data[{{ name }}],
                data[{{ name }}] is not null
            )
        )
        {%- endif %},
        {{ name }},
        null
    ){{ ',' if not loop.last }}
    {%- endfor %}
))
{%- endmacro -%}


{%- macro _qlik_is_lob(column, with_schemas) -%}
    {%- set declared = 'true' if column.lob else 'false' -%}
    {%- if not with_schemas -%}
        {{ return(declared) }}
    {%- endif -%}
    {{ return('coalesce(array_contains(lob_columns, ' ~ afterimage._literal(column.name) ~ '), ' ~ declared ~ ')') }}
{%- endmacro -%}


{#- Columns whose NULL means "unknown": not in the message, or not in its columnMask. Without that mask an update's
    changeMask serves: what did not change is as it was. It says nothing of LOBs. -#}
{%- macro _qlik_message_absent(columns, keys, with_schemas) -%}
nullif(
    array_compact(array(
        {%- for column in columns if column.name not in keys %}
        {%- set name = afterimage._literal(column.name) %}
        if(
            data[{{ name }}] is null
            and (
                not map_contains_key(data, {{ name }})
                or coalesce(
                    not {{ afterimage._qlik_has_bit('present_ordinals', column) }},
                    operation_word = 'UPDATE'
                    and not {{ afterimage._qlik_has_bit('changed_ordinals', column) }}
                    and not {{ afterimage._qlik_is_lob(column, with_schemas) }},
                    false
                )
            ),
            {{ name }},
            null
        ){{ ',' if not loop.last }}
        {%- endfor %}
        {%- if columns | length == keys | length %}cast(null as string){% endif %}
    )),
    cast(array() as array<string>)
)
{%- endmacro -%}


{#- What the windows over messages are divided by: the changeSequence and the key, good messages apart from others. -#}
{%- macro _qlik_message_place(keys) -%}
    {%- set parts = ['change_group', 'reject_reason is null'] -%}
    {%- for key in keys -%}
        {%- do parts.append('image.' ~ afterimage._quote(key)) -%}
    {%- endfor -%}
    {{ return(parts | join(', ')) }}
{%- endmacro -%}


{#- A changeSequence some hours before another. -#}
{%- macro _qlik_hours_before(change_seq, hours) -%}
    {%- if change_seq is none or not hours -%}
        {{ return(change_seq) }}
    {%- endif -%}
    {%- set moment = modules.datetime.datetime.strptime(change_seq[:14], '%Y%m%d%H%M%S') -%}
    {{ return((moment - modules.datetime.timedelta(hours=hours)).strftime('%Y%m%d%H%M%S') ~ change_seq[14:]) }}
{%- endmacro -%}


{#- Which transactions are complete: the CTEs from `located` to `settled_transactions`. All messages of the relation
    count, whatever their table. An id may come back for another transaction, which then begins to count again. What is
    missing may be of a table that is not here, so none is waited for longer than `hours` of the stream. -#}
{%- macro _qlik_transactions(hours) -%}
{%- set w -%}
partition by coalesce(transaction_id, message_id) order by landed_seq, event_counter, message_id
{%- endset -%}
{%- set incomplete -%}
has_seq and transaction_id is not null and event_counter is not null and not coalesce(events_here = last_event, false)
{%- endset -%}
transaction_events as (

    select
        *,
        coalesce(
            event_counter < lag(event_counter) over ({{ w }})
            or (event_counter = lag(event_counter) over ({{ w }}) and landed_seq <> lag(landed_seq) over ({{ w }}))
            or {{ afterimage._qlik_seq_time('landed_seq') | indent(12) }}
            > lag({{ afterimage._qlik_seq_time('landed_seq') | indent(12) }}) over ({{ w }}) + interval {{ hours }} hours,
            false
        ) as begins_anew

    from located

),

numbered_transactions as (

    select
        *,
        count_if(begins_anew) over ({{ w }} rows between unbounded preceding and current row) as transaction_number

    from transaction_events

),

sized_transactions as (

    select
        *,
        size(collect_set(event_counter) over (
            partition by coalesce(transaction_id, message_id), transaction_number
        )) as events_here,
        max(if(is_last_event, event_counter, null)) over (
            partition by coalesce(transaction_id, message_id), transaction_number
        ) as last_event,
        max(landed_seq) over (partition by coalesce(transaction_id, message_id), transaction_number) as last_seq

    from numbered_transactions

),

settled_transactions as (

    select
        sized_transactions.*,
        {{ incomplete }} as is_incomplete,
        {{ incomplete }}
        and {{ afterimage._qlik_seq_time('last_seq') | indent(8) }}
        >= {{ afterimage._qlik_seq_time('newest_seq') | indent(8) }} - interval {{ hours }} hours as is_held_back

    from sized_transactions
    cross join (select max(landed_seq) as newest_seq from located where has_seq) as newest

),
{%- endmacro -%}


{#- The places of the columns where the caller's list has to say them: {map, list} of SQL. -#}
{%- macro _qlik_given_ordinals(names) -%}
    {%- set entries = [] -%}
    {%- for name in names -%}
        {%- do entries.append(afterimage._literal(name) ~ ', ' ~ loop.index) -%}
    {%- endfor -%}
    {{ return({
        'map': 'map(' ~ entries | join(', ') ~ ')',
        'list': 'sequence(1, ' ~ (names | length) ~ ')',
    }) }}
{%- endmacro -%}
