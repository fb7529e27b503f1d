{#- What a Kafka landing has; none if the table does not exist yet:
    - `value`: the column with the message, `is_binary`: whether it is bytes,
    - `key`, `topic`, `partition`, `offset`, `timestamp`: SQL for these columns, a typed NULL for one that is missing,
    - `has_offsets`: whether partition and offset are there; `own_topic`: what `topic` is without such a column, none if
      that is NULL; `has_topic`: whether there is one. -#}
{%- macro _qlik_landing(macro_name, relation, value) -%}
    {%- do afterimage._check_text(macro_name, 'value', value) -%}
    {%- if afterimage._needs_placeholder([relation]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = afterimage._message_columns(macro_name, relation, value) -%}
    {%- set landing = {
        'value': afterimage._quote(found[value | lower].name),
        'is_binary': found[value | lower].type == 'binary',
        'has_offsets': 'partition' in found and 'offset' in found,
        'has_topic': 'topic' in found,
        'own_topic': afterimage._literal(relation | string)
            if 'topic' not in found and afterimage._qlik_unites() else none,
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
    {%- if landing.own_topic -%}
        {%- do landing.update({'topic': landing.own_topic}) -%}
    {%- endif -%}
    {{ return(landing) }}
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


{#- The topic of a stored row's position, by which it is compared with those of the landing. Before the model united
    tables it was NULL. -#}
{%- macro _qlik_known_topic(landing, row) -%}
    {%- set stored = row ~ '.message_position.topic' -%}
    {%- if landing.has_topic -%}
        {{ return(stored) }}
    {%- endif -%}
    {{ return('coalesce(' ~ stored ~ ', ' ~ landing.own_topic ~ ')' if landing.own_topic else landing.topic) }}
{%- endmacro -%}


{#- The CTEs from the landing to `opened_messages`, one row per landed message: the envelope, and `body`, a struct
    of `fields`; others are ignored. `body` is what the JSON format has in `message`, or at the top if the task writes
    no envelope. Avro is converted to the same JSON first. With `schemas`, the name of a CTE, Avro payloads are read by
    the schema of their id. `usual` are the steps that read usual messages (usual.sql), if any are sought. (The CTEs are
    few, because Spark takes long to analyse a long chain of them.) -#}
{%- macro _qlik_opened_messages(rows, landing, fields, schemas=none, condition=none, usual=[]) -%}
    {%- set types = [] -%}
    {%- for name, type in fields.items() -%}
        {%- do types.append(afterimage._quote(name) ~ ' ' ~ type) -%}
    {%- endfor -%}
    {%- set body = types | join(', ') -%}
    {%- set parsed_as = afterimage._literal(
        'magic string, type string, messageSchemaId string, message struct<' ~ body ~ '>, ' ~ body
    ) -%}
    {#- A struct from a UDF is never NULL itself. -#}
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
-- JSON may land as bytes too, as a Kafka source gives it; a brace distinguishes it from Avro.
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
            {{ afterimage._exact_numbers(
                'if(' ~ is_json ~ ', ' ~ afterimage._valid_text('value') ~ ', coalesce(payload.message, envelope.message))'
            ) | indent(12) }},
            {{ parsed_as }}
        ) as parsed

    from payloads

),
{% else %}
{% if usual -%}
landed_messages as (

    select
        {{ landed }}

    {{ new_messages }}

),

{% endif -%}
parsed_messages as (

    select
        {%- if usual %}
        *,
        {%- for name, step in usual %}
        {{ step | indent(8) }} as {{ name }},
        {%- endfor %}
        {%- else %}
        {{ landed }},
        {%- endif %}
        from_json(
            {{ afterimage._exact_numbers('if(usual is null, value, null)' if usual else landing.value) | indent(12) }},
            {{ parsed_as }}
        ) as parsed

    {{ 'from landed_messages' if usual else new_messages }}

),
{% endif %}
opened_messages as (

    select
        value is null as is_tombstone,
        -- A message's identity must not depend on its schema, which may arrive later.
        if(
            value is null,
            concat('tombstone-', md5(to_json(struct(topic, message_key)))),
            md5(value)
        ) as message_id,
        -- NULLs sort first: a message without an arrival time counts as first.
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


{#- The time in a text written by Qlik. It is in UTC, though the text does not say so. -#}
{%- macro _qlik_time(text) -%}
{{- afterimage._landed_time(
    'if(' ~ text ~ " rlike '(Z|[+-][0-9]{2}:?[0-9]{2})$', " ~ text ~ ', concat(' ~ text ~ ", 'Z'))", 'string'
) -}}
{%- endmacro -%}
