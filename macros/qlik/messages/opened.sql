{#- What a Kafka landing has; none if the table does not exist yet:
    - `value`: the column with the message, `is_binary`: whether it is bytes,
    - `key`, `topic`, `partition`, `offset`, `timestamp` (Kafka counts milliseconds): their SQL; a typed NULL for a missing column,
    - `has_offsets`: whether partition and offset are there; `has_topic`: whether `topic` is,
    - `own_topic`: what `topic` is without such a column, none if that is NULL,
    - `unites`: whether the staging table may hold offsets of other raw tables. -#}
{%- macro _qlik_landing(macro_name, relation, value) -%}
    {%- do afterimage._check_text(macro_name, 'value', value) -%}
    {%- if afterimage._needs_placeholder([relation]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = afterimage._message_columns(macro_name, relation, value) -%}
    {%- set has_topic, name = 'topic' in found, afterimage._whole(relation) | string -%}
    {%- set topics = afterimage._qlik_built_topics() if macro_name == 'qlik_messages' and not has_topic else {} -%}
    {%- set unites = afterimage._qlik_unites() or topics.values() | select | list | length > 0 -%}
    {%- set landing = {
        'value': afterimage._quote(found[value | lower].name),
        'is_binary': found[value | lower].type == 'binary',
        'has_offsets': 'partition' in found and 'offset' in found,
        'has_topic': has_topic,
        'own_topic': topics.get(name, name if unites else none) if not has_topic else none,
        'unites': unites,
    } -%}
    {%- for name, type in {
        'key': 'string', 'topic': 'string', 'partition': 'int', 'offset': 'bigint', 'timestamp': 'timestamp'
    }.items() -%}
        {%- set expression = afterimage._quote(found[name].name) if name in found else 'null' -%}
        {%- set is_bytes = name == 'key' and name in found and found[name].type == 'binary' -%}
        {%- set expression = 'hex(' ~ expression ~ ')' if is_bytes else expression -%}
        {%- do landing.update({
            name: 'try_cast(' ~ expression ~ ' as ' ~ type ~ ')' if name != 'timestamp' or name not in found
            else afterimage._landed_count(expression, 'millis') if found[name].type == 'bigint'
            else afterimage._landed_time(expression, found[name].type)
        }) -%}
    {%- endfor -%}
    {%- if landing.own_topic -%}
        {%- do landing.update({'topic': afterimage._literal(landing.own_topic)}) -%}
    {%- endif -%}
    {{ return(landing) }}
{%- endmacro -%}


{#- What stood for the topic of raw tables without such a column in earlier runs, by the tables' names. A table keeps
    it, so that its offsets stay its own when the model gets another table, or loses one. (A staging table of an
    earlier release does not say it.) -#}
{%- macro _qlik_built_topics() -%}
    {%- set built_with = afterimage._built_with() if afterimage._is_incremental() else [] -%}
    {%- set has_names = built_with | length > 1 and afterimage._qlik_unites() -%}
    {%- set topics = {} -%}
    {%- for one in built_with -%}
        {%- do topics.update({
            one.name: (one.made_by or {}).get('topic', one.name if has_names else none)
        }) -%}
    {%- endfor -%}
    {{ return(topics) }}
{%- endmacro -%}


{#- Whether the model may unite raw tables: it calls the macro more than once, or in a loop. Offsets of tables without a
    column `topic` are told apart by the table's name then. A model of one table needs none, and none can change. -#}
{%- macro _qlik_unites() -%}
    {%- set body = modules.re.sub(
        '[{]#.*?#[}]', '', (model.raw_code if model is defined else none) or '', flags=modules.re.DOTALL
    ) -%}
    {{ return(
        modules.re.findall('\\bqlik_messages\\s*\\(', body) | length > 1
        or modules.re.search('%[-+]?\\s*for\\s(?:(?!endfor).)*\\bqlik_messages\\s*\\(', body, modules.re.DOTALL) is not none
    ) }}
{%- endmacro -%}


{#- The topic of a stored row's position, by which it is compared with those of the landing. In a model of one table
    without a column `topic` all have the same. -#}
{%- macro _qlik_known_topic(landing, row) -%}
    {%- set stored = row ~ '.message_position.topic' -%}
    {{ return(stored if landing.has_topic or landing.unites else landing.topic) }}
{%- endmacro -%}


{#- The CTEs from the landing to `opened_messages`, one row per landed message: the envelope, and `body`, a struct
    of `fields`; others are ignored. `body` is what the JSON format has in `message`, or at the top if the task writes
    no envelope. Avro is converted to the same JSON first. With `schemas`, the name of a CTE, Avro payloads are read by
    the schema of their id. `usual` are the steps that read usual messages (usual.sql), if any are sought. If there
    `are_many`, all tasks read Avro. (The CTEs are few, because Spark takes long to analyse a long chain.) -#}
{%- macro _qlik_opened_messages(rows, landing, fields, schemas=none, condition=none, usual=[], are_many=false) -%}
    {%- set types = [] -%}
    {%- for name, type in fields.items() -%}
        {%- do types.append(afterimage._quote(name) ~ ' ' ~ type) -%}
    {%- endfor -%}
    {%- set body = types | join(', ') -%}
    {%- set parsed_as = afterimage._literal(
        'magic string, type string, messageSchemaId string, message struct<' ~ body ~ '>, ' ~ body
    ) -%}
    {#- A struct from a UDF is never NULL itself. -#}
    {%- set is_json = 'opened.type is null and opened.error is null' -%}
    {%- set is_brace = 'substring(' ~ landing.value ~ ", 1, 1) = X'7B'" -%}
    {%- set plain_schema_id = afterimage._qlik_plain_schema_id(landing.value) -%}
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
    {%- if landing.is_binary and are_many -%}
        {%- set new_messages = 'from (select * ' ~ new_messages ~ ' distribute by xxhash64(' ~ landing.value ~ '))' -%}
    {%- endif -%}
{#- Beside `parsed`, since Spark compiles neither: a projection of its own would copy the row. -#}
{%- set tombstone_id -%}
if(value is null, concat('tombstone-', md5(to_json(struct(topic, message_key)))), null)
{%- endset -%}
{% if landing.is_binary %}
-- JSON may land as bytes too, as a Kafka source gives it; a brace distinguishes it from Avro.
{%- if schemas is not none %}
envelopes as (

    select
        {{ landed }},
        {{ plain_schema_id | indent(8) }} as plain_schema_id,
        decode_avro_message(
            if({{ is_brace }} or {{ plain_schema_id | indent(12) }} is not null, null, {{ landing.value }})
        ) as envelope

    {{ new_messages }}

),
{%- endif %}

payloads as (

    select
        {%- if schemas is none %}
        {{ landed }},
        decode_avro_message(if({{ is_brace }}, null, {{ landing.value }})) as opened

    {{ new_messages }}
        {%- else %}
        envelopes.*,
        decode_avro_message(
            if(substring(value, 1, 1) = X'7B', null, value),
            if(plain_schema_id is not null or envelope.type = 'DT', data_schema, null)
        ) as opened

    from envelopes
    left outer join (select /*+ broadcast */ schema_id, data_schema from {{ schemas }}) as avro_schemas
        on coalesce(plain_schema_id, envelope.schema_id) = avro_schemas.schema_id
        {%- endif %}

),

parsed_messages as (

    select
        *,
        {{ tombstone_id }} as tombstone_id,
        from_json(
            -- What was Avro has texts alone.
            coalesce(
                opened.message,
                {{ afterimage._exact_numbers('if(' ~ is_json ~ ', ' ~ afterimage._valid_text('value') ~ ', null)') | indent(16) }}
            ),
            {{ parsed_as }}
        ) as parsed

    from payloads

),
{% else %}
landed_messages as (

    select
        {{ landed }}

    {{ new_messages }}

),

parsed_messages as (

    select
        *,
        {%- for name, step in usual %}
        {{ step | indent(8) }} as {{ name }},
        {%- endfor %}
        {{ tombstone_id }} as tombstone_id,
        from_json(
            {{ afterimage._exact_numbers('if(usual is null, value, null)' if usual else 'value') | indent(12) }},
            {{ parsed_as }}
        ) as parsed

    from landed_messages

),
{% endif %}
opened_messages as (

    select
        value is null as is_tombstone,
        -- A message's identity must not depend on its schema, which may arrive later.
        coalesce(tombstone_id, md5(value)) as message_id,
        -- NULLs sort first: a message without an arrival time counts as first.
        struct(landed_at, landed_partition, landed_offset) as arrival,
        if(
            landed_partition is not null and landed_offset is not null,
            struct(topic, landed_partition as `partition`, landed_offset as `offset`),
            null
        ) as message_position,
        {%- if landing.is_binary %}
        opened.type is not null as is_avro,
        opened.error as avro_error,
        if({{ is_json }}, cast(value as string), null) as json_text,
        coalesce(opened.type, parsed.type) as type,
        coalesce(opened.schema_id, parsed.messageSchemaId) as envelope_schema_id,
        {%- else %}
        false as is_avro,
        cast(null as string) as avro_error,
        value as json_text,
        {{ 'coalesce(usual.type, parsed.type)' if usual else 'parsed.type' }} as type,
        {{ 'coalesce(usual.schema_id, parsed.messageSchemaId)' if usual else 'parsed.messageSchemaId' }} as envelope_schema_id,
        {%- endif %}
        {%- if usual %}
        usual is not null as is_usual,
        usual.data as usual_data,
        usual.before_data as usual_before,
        {%- endif %}
        {{ 'coalesce(usual.magic, parsed.magic)' if usual else 'parsed.magic' }} as magic,
        coalesce({{ 'usual.body, ' if usual }}parsed.message, {{ afterimage._struct(fields, 'parsed.') }}) as body

    from parsed_messages

)
{%- endmacro -%}


{#- The schema id in the envelope of a data message in Avro, as Qlik usually writes it: the magic, the type DT, no
    headers, an id of less than 64 bytes. Such a message is opened once, by the schema of the id. NULL of any other.
    (`conv` would take longer than `ascii`, and this is evaluated several times.) -#}
{%- macro _qlik_plain_schema_id(value) -%}
{%- set size = 'ascii(cast(substring(' ~ value ~ ', 11, 1) as string))' -%}
if(
    substring({{ value }}, 1, 10) = X'61744D53470444540002' and {{ size }} < 128,
    cast(substring({{ value }}, 12, cast({{ size }} div 2 as int)) as string),
    null
)
{%- endmacro -%}


{#- The time in a text written by Qlik. It is in UTC, though the text does not say so. -#}
{%- macro _qlik_time(text) -%}
{{- afterimage._landed_time(
    'if(' ~ text ~ " rlike '(Z|[+-][0-9]{2}:?[0-9]{2})$', " ~ text ~ ', concat(' ~ text ~ ", 'Z'))", 'string'
) -}}
{%- endmacro -%}
