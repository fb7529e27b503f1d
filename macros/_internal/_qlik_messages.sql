{#- The columns of a Kafka landing: SQL expressions by name, a typed NULL for one that the relation does not have.
    Returns none ahead of its table. -#}
{%- macro _qlik_landing(macro_name, relation, value) -%}
    {%- do afterimage._check_text(macro_name, 'value', value) -%}
    {%- if afterimage._is_ahead_of([relation]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do found.update({column.name | lower: column}) -%}
    {%- endfor -%}
    {%- if not found -%}
        {%- do afterimage._raise_no_columns(macro_name, relation) -%}
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
        'has_offsets': 'partition' in found and 'offset' in found,
    } -%}
    {%- for name, type in {
        'key': 'string', 'topic': 'string', 'partition': 'int', 'offset': 'bigint', 'timestamp': 'timestamp'
    }.items() -%}
        {%- set expression = afterimage._quote(found[name].name) if name in found else 'null' -%}
        {%- if name == 'key' and name in found and found[name].type == 'binary' -%}
            {%- set expression = 'hex(' ~ expression ~ ')' -%}
        {%- endif -%}
        {%- do landing.update({
            name: afterimage._landed_time(expression, found[name].type) if name == 'timestamp' and name in found
            else 'try_cast(' ~ expression ~ ' as ' ~ type ~ ')'
        }) -%}
    {%- endfor -%}
    {{ return(landing) }}
{%- endmacro -%}


{#- The CTEs from the landing to `opened_messages`, one row a landed message: what the envelope says, and `body`, a
    struct of `fields`, which is what the JSON format has in `message` (or at the top where the task writes no
    envelope). Avro becomes the same JSON first. With `schemas`, the name of a CTE, Avro payloads are read by the schema
    of their id. (The CTEs are few, because Spark takes long to analyse a long chain of them.) -#}
{%- macro _qlik_opened_messages(rows, landing, fields, schemas=none, condition=none) -%}
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
from {{ rows }}
    {%- if condition %}
    where {{ condition | indent(8) }}
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
        if(
            landed_partition is not null and landed_offset is not null,
            struct(topic, landed_partition as `partition`, landed_offset as `offset`),
            null
        ) as message_position,
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


{#- The changeSequences in the bytes of a landed message: one, or none, unless the row itself holds what looks like one.
    In Avro its length, the byte F, is before it. -#}
{%- macro _qlik_message_seqs(landing) -%}
regexp_extract_all(
    {{ "decode(" ~ landing.value ~ ", 'ISO-8859-1')" if landing.is_binary else landing.value }},
    '("changeSequence"\\s*:\\s*"\\s*{{ '|F' if landing.is_binary }})([0-9]{35})(?![0-9])', 2
)
{%- endmacro -%}


{#- Whether a load message may stand behind a change in its partition. Asked while compiling, of the bytes alone, since
    hardly any landing holds a reload, and to place one takes a second look at all messages. Of what earlier runs have
    read the model's table tells. -#}
{%- macro _qlik_may_hold_reloads(landing, side) -%}
    {%- if not landing.has_offsets -%}
        {{ return(false) }}
    {%- elif '__dbt__cte__' in side.rows -%}
        {{ return(true) }}
    {%- endif -%}
    {%- set query -%}
        select count(*)
        from (
            select
                max(if(is_change, null, if(may_be_load, landed_offset, null)))
                > min(if(is_change, landed_offset, null)) as holds_reload

            from (
                select
                    {{ landing.topic }} as topic,
                    {{ landing.partition }} as landed_partition,
                    {{ landing.offset }} as landed_offset,
                    coalesce(size({{ afterimage._qlik_message_seqs(landing) | indent(20) }}), 0) > 0 as is_change,
                    {{ landing.value }} {{ 'is not null' if landing.is_binary else "ilike '%refresh%'" }} as may_be_load

                from {{ side.landed or side.rows }} as landed
                {%- if afterimage._is_incremental() %}
                union all
                select
                    message_position.topic,
                    message_position.`partition` as landed_partition,
                    message_position.`offset` as landed_offset,
                    change_seq <> '' and not {{ afterimage._has_movable_place('change_seq') }} as is_change,
                    coalesce(operation = 'load', false)
                    or {{ afterimage._has_movable_place('change_seq') }} as may_be_load

                from {{ this }}
                {%- endif %}
            ) as messages
            where landed_offset is not null
            group by topic, landed_partition
        ) as partitions
        where holds_reload
    {%- endset -%}
    {{ return(run_query(query).columns[0].values()[0] > 0) }}
{%- endmacro -%}


{#- The CTE `reloads`: of each load message behind a change in its partition its place, right behind the greatest
    changeSequence of the earlier offsets: all that a reload holds has one place, which begins with that and ends in the
    offset of the last change. Changes of earlier runs count, which need not be read again. -#}
{%- macro _qlik_reloads(has_table) -%}
reloads as (

    select
        message_id,
        message_position,
        concat(last_seq, '.r', lpad(last_offset, 19, '0')) as place

    from (
        select
            message_id,
            struct(topic, `partition`, `offset`) as message_position,
            is_load,
            max(landed_seq) over (
                partition by topic, `partition` order by `offset`
                range between unbounded preceding and 1 preceding
            ) as last_seq,
            max(if(is_load, null, `offset`)) over (
                partition by topic, `partition` order by `offset`
                range between unbounded preceding and 1 preceding
            ) as last_offset

        from (
            -- A change that was written again later is where it was first; a load is wherever it is.
            select
                message_id,
                message_position.topic,
                message_position.`partition`,
                min(message_position.`offset`) as `offset`,
                landed_seq is null as is_load,
                landed_seq

            from (
                select
                    message_id,
                    message_position,
                    if(operation_word = 'REFRESH', null, landed_seq) as landed_seq

                from masked
                where
                    (operation_word = 'REFRESH' or (operation_word in ('INSERT', 'UPDATE', 'DELETE') and has_seq))
                    {%- if has_table %}
                    and not coalesce(is_of_another_table, false)
                    {%- endif %}
                {%- if afterimage._is_incremental() %}
                union all
                select
                    change_id as message_id,
                    message_position,
                    left(change_seq, 35) as landed_seq

                from {{ this }}
                where
                    operation in ('insert', 'update', 'delete')
                    and change_seq <> ''
                    and not {{ afterimage._has_movable_place('change_seq') }}
                    {%- if has_table %}
                    and not coalesce(reject_reason like 'of another table:%', false)
                    {%- endif %}
                {%- endif %}
            ) as positions
            where message_position is not null
            group by
                message_id, message_position.topic, message_position.`partition`, landed_seq,
                if(landed_seq is null, message_position.`offset`, null)
        ) as distinct_positions
    ) as placed_messages
    where is_load and last_offset is not null

),
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
{{- afterimage._landed_time(
    'if(' ~ text ~ " rlike '(Z|[+-][0-9]{2}:?[0-9]{2})$', " ~ text ~ ', concat(' ~ text ~ ", 'Z'))", 'string'
) -}}
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
    metadata messages, which stand in the same column as the data messages if there is one of that name. None ahead of
    them, or without metadata. -#}
{%- macro _qlik_schema_rows(metadata, value='value') -%}
    {%- if metadata is none or afterimage._is_ahead_of([metadata]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set names = afterimage._relation_columns(metadata) | map(attribute='name') | map('lower') | list -%}
    {%- if 'schema_id' in names and 'data_schema' in names -%}
        {{ return('select * from ' ~ metadata) }}
    {%- endif -%}
    {{ return(afterimage.qlik_message_schemas(metadata, value if value | lower in names else 'value')) }}
{%- endmacro -%}


{#- Whether a row of schemas, or a message, is of the table that the caller asked for: `table` or `schema.table`. NULL
    where it does not say enough to tell. -#}
{%- macro _qlik_is_table(table, schema_name, table_name) -%}
{%- set asked = afterimage._literal(table | lower) -%}
case
            when {{ asked }} in (lower({{ table_name }}), lower(concat({{ schema_name }}, '.', {{ table_name }}))) then true
            when {{ table_name }} is null then null
            when {{ schema_name }} is null and endswith({{ asked }}, lower(concat('.', {{ table_name }}))) then null
            else false
        end
{%- endmacro -%}


{#- What a run reads. With the places of what has landed come the messages that were held back; and all is read where a
    schema has come that a message waited for. `hold_back_hours` is none where transactions need not be complete. -#}
{%- macro _qlik_messages_intake(relation, landing, metadata, schema_rows, hold_back_hours) -%}
    {%- set seqs = afterimage._qlik_message_seqs(landing) -%}
    {%- set sides = [{
        'relation': relation,
        'place': 'explode_outer(array_distinct(' ~ seqs ~ '))',
        'has_place': 'coalesce(size(' ~ seqs ~ '), 0) > 0',
        'reach': 8,
        'time': afterimage._qlik_seq_time('array_max(' ~ seqs ~ ')'),
    }] -%}
    {%- set has_own_schemas = schema_rows is not none and metadata | string != relation | string -%}
    {%- if has_own_schemas -%}
        {%- do sides.append({'relation': metadata}) -%}
    {%- endif -%}
    {%- set held_back = [] -%}
    {%- if hold_back_hours is not none and afterimage._is_incremental() -%}
        {%- set first = run_query(
            "select min(left(change_seq, 35)) from " ~ this ~ " where reject_reason like 'held back:%'"
        ).columns[0].values()[0] -%}
        {%- do held_back.append([first[:8], first, '9' * 35]) if first -%}
    {%- endif -%}
    {%- set intake = afterimage._intake('qlik_messages', sides, extents=held_back) -%}
    {%- set side = intake.sides[0] -%}
    {%- if intake.kind == 'new' -%}
        {%- if schema_rows is not none and intake.sides[-1].kind == 'new' and afterimage._qlik_has_come(schema_rows) -%}
            {%- do intake.update({'kind': 'all', 'known_within': none}) -%}
            {%- do side.update({'landed': none}) -%}
        {%- elif side.kind == 'nothing' -%}
            {%- do intake.update({'kind': 'nothing'}) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake) }}
    {%- endif -%}
    {%- set has_reloads = afterimage._qlik_may_hold_reloads(landing, side) -%}
    {%- do intake.update({'has_reloads': has_reloads}) -%}
    {%- if has_reloads or hold_back_hours is not none -%}
        {#- The place of a reload may become another one; a transaction has other places than those that landed. -#}
        {%- do intake.update({'known_within': none}) -%}
    {%- endif -%}
    {%- if intake.kind == 'new' -%}
        {#- The bytes tell which messages need not be opened. Loads have no place in time: of these all are read. -#}
        {%- set conditions = [] -%}
        {%- if intake.ranges -%}
            {%- set within = afterimage._qlik_within('s', intake.ranges) -%}
            {%- if hold_back_hours is not none -%}
                {%- set within = afterimage._qlik_near_transactions(intake.ranges, hold_back_hours) -%}
            {%- endif -%}
            {%- do conditions.append('coalesce(exists(' ~ seqs ~ ', s -> ' ~ within ~ '), false)') -%}
        {%- endif -%}
        {%- if intake.has_others or has_reloads -%}
            {%- do conditions.append('coalesce(size(' ~ seqs ~ '), 0) <= 0') -%}
        {%- endif -%}
        {%- do side.update({'condition': conditions | join(' or ')}) -%}
    {%- endif -%}
    {{ return(intake) }}
{%- endmacro -%}


{#- The condition that a changeSequence is in one of the ranges, each taken some hours further. -#}
{%- macro _qlik_within(seq, ranges, hours=0) -%}
    {%- set conditions = [] -%}
    {%- for first, last in ranges -%}
        {%- do conditions.append(
            seq ~ ' between ' ~ afterimage._qlik_hours_from(first, -hours) ~ ' and '
            ~ afterimage._qlik_hours_from(last, hours)
        ) -%}
    {%- endfor -%}
    {{ return('(' ~ conditions | join(' or ') ~ ')') }}
{%- endmacro -%}


{#- The same for all that may be of one transaction with what is in the ranges: what is no further from it than the
    hours, and all that is known of the transactions there. -#}
{%- macro _qlik_near_transactions(ranges, hours) -%}
    {%- set near = afterimage._qlik_within('s', ranges, hours) -%}
    {%- set query -%}
        select
            left(change_seq, 8),
            min(left(change_seq, 35)),
            max(left(change_seq, 35))

        from {{ this }}
        where
            change_seq <> ''
            and transaction_id in (
                select transaction_id from {{ this }}
                where {{ afterimage._qlik_within('change_seq', ranges, hours) }}
            )
        group by 1
    {%- endset -%}
    {%- set extents = [] -%}
    {%- for row in run_query(query).rows -%}
        {%- do extents.append([row[0], row[1], row[2]]) -%}
    {%- endfor -%}
    {{ return(near ~ ' or ' ~ afterimage._qlik_within('s', afterimage._as_ranges(extents)) if extents else near) }}
{%- endmacro -%}


{#- Whether a schema has come that messages of earlier runs wait for: they may have any place. -#}
{%- macro _qlik_has_come(schema_rows) -%}
    {%- set query -%}
        select 1
        from {{ this }} as staged
        inner join (
            select distinct schema_id
            from ({{ schema_rows }}) as schema_rows
            where reject_reason is null
        ) as came
            on staged.schema_id = came.schema_id
        where
            staged.reject_reason = concat({{ afterimage._qlik_no_schema() }}, staged.schema_id)
            or array_contains(staged.warnings, concat({{ afterimage._qlik_no_schema() }}, staged.schema_id))
        limit 1
    {%- endset -%}
    {{ return(run_query(query).rows | length > 0) }}
{%- endmacro -%}


{#- What a message says that waits for its schema; the schema's id follows. -#}
{%- macro _qlik_no_schema() -%}
'no metadata message has the schema id: '
{%- endmacro -%}


{#- What the windows over messages are divided by: the place and the key, good messages apart from others. What is no
    load and has no place stands alone. -#}
{%- macro _qlik_message_place(keys) -%}
    {%- set parts = ["coalesce(nullif(place, ''), if(kind = 'load', 'load', message_id))", 'reject_reason is null'] -%}
    {%- for key in keys -%}
        {%- do parts.append('image.' ~ afterimage._quote(key)) -%}
    {%- endfor -%}
    {{ return(parts | join(', ')) }}
{%- endmacro -%}


{#- SQL for the changeSequence some hours after another, or, of fewer than none, before it. -#}
{%- macro _qlik_hours_from(change_seq, hours) -%}
    {%- set seq = afterimage._literal(change_seq) -%}
    {%- if not hours -%}
        {{ return(seq) }}
    {%- endif -%}
    {%- set time -%}
        {{ afterimage._qlik_seq_time(seq) }} + interval {{ hours }} hours + interval {{ 1 if hours > 0 else 0 }} seconds
    {%- endset -%}
    {{ return('coalesce(' ~ afterimage._qlik_seq_at(time) ~ ', ' ~ seq ~ ')') }}
{%- endmacro -%}


{#- Which transactions are complete: the CTEs from `located` to `settled_transactions`. All messages of the relation
    count, whatever their table. An id may come back for another transaction, which then begins to count again. What is
    missing may be of a table that is not here, so none is waited for longer than `hours` of the stream. -#}
{%- macro _qlik_transactions(hours, ranges) -%}
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
        {%- if ranges %},
        -- Others are read only to tell which transactions these are.
        max(not has_seq or {{ afterimage._qlik_within('landed_seq', ranges) }}) over (
            partition by coalesce(transaction_id, message_id), transaction_number
        ) as has_landed
        {%- endif %}

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
    cross join (
        select
            greatest(
                max(landed_seq),
                '{{ afterimage._newest_place(35, at_most=afterimage._qlik_latest_seq()) or '' }}'
            ) as newest_seq
        from located
        where has_seq and landed_seq <= '{{ afterimage._qlik_latest_seq() }}'
    ) as newest
    {%- if ranges %}
    where has_landed
    {%- endif %}

),
{%- endmacro -%}
