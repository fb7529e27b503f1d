{#- What a landing of messages has, as SQL over its rows:
    - `opened`: with `schemas`, the query that opens the messages (see _debezium_opened); the other SQL is then over it,
    - `value`, `key`, `key_row`, `headers`: the message, its key as text and as JSON, and its headers (`has_headers`: whether
      they are landed); `bytes`: the message as it landed, `text`: that or its key, as they are read without `schemas`,
    - `was_avro`: whether it is read from Avro, which gives no number that Spark would write otherwise,
    - `unread`: why the message cannot be read, `no_frame`: the same for bytes that are neither JSON nor Avro,
    - `position`, `partition`: the columns of `position` as one text that sorts, and the first of them,
    - `place`: the place of a change in the order, `place_missing`: what to show if there is none. -#}
{%- macro _debezium_landing(relation, value, key, position, headers, schemas) -%}
    {%- set found = afterimage._message_columns('debezium_messages', relation, value) -%}
    {%- set names = found.values() | map(attribute='name') | list -%}
    {%- set columns = {} -%}
    {%- for argument, column in {'value': value, 'key': key, 'headers': headers}.items() -%}
        {%- do afterimage._check_known('debezium_messages', argument, [column] if column else [], names) -%}
        {%- do columns.update({argument: {
            'sql': afterimage._quote(column) if column else 'cast(null as string)',
            'type': found[column | lower].type if column else 'string',
        }}) -%}
    {%- endfor -%}
    {%- do afterimage._check_known('debezium_messages', 'position', position, names) -%}
    {%- set numbers = afterimage._number_texts(position or []) -%}
    {%- set landing = {
        'opened': none,
        'bytes': columns.value.sql,
        'text': 'coalesce(' ~ afterimage._valid_text(columns.value.sql) ~ ', ' ~ afterimage._valid_text(columns.key.sql) ~ ", '')",
        'value': afterimage._valid_text(columns.value.sql),
        'key': afterimage._valid_text(columns.key.sql),
        'key_row': afterimage._valid_text(columns.key.sql),
        'was_avro': 'false',
        'unread': 'cast(null as string)',
        'no_frame': "if(value rlike '(?s)^.{3,5}[{]\"', 'JSON behind the id of its schema: read substring(value, 6)', "
            ~ "'Avro is read from a binary column, and with `schemas`')",
        'headers': afterimage._valid_text(columns.headers.sql),
        'has_headers': headers is not none,
        'position': 'concat(' ~ numbers | join(', ') ~ ')' if position else 'cast(null as string)',
        'partition': 'concat(' ~ (numbers[:-1] + ["''"]) | join(', ') ~ ')',
        'place': 'landed_position' if position else afterimage._debezium_place_in_log(),
        'place_missing': "'a column of `position` is no number'" if position else 'source_text',
    } -%}
    {%- if schemas is not none -%}
        {%- do afterimage._check_columns('debezium_messages', 'schemas', schemas, ['id', 'schema']) -%}
        {%- do landing.update({
            'opened': afterimage._debezium_opened(columns.value, columns.key, schemas),
            'value': 'afterimage_value', 'key': 'afterimage_key', 'key_row': 'afterimage_key_row',
            'was_avro': 'afterimage_value_id is not null', 'unread': 'afterimage_read_error',
        }) -%}
        {%- if columns.value.type == 'binary' -%}
            {%- do landing.update({'no_frame': "'not an Avro message: it ends before the id of its schema'"}) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(landing) }}
{%- endmacro -%}


{#- A query over the landed rows, `<rows>`, that opens the messages of a schema registry. It adds
    - `afterimage_value`: the message as JSON. Bytes that cannot be read are hex digits, which no JSON is. They do not
      depend on the schema, which may come later,
    - `afterimage_key`: the key as text, and `afterimage_key_row`: the key as JSON,
    - `afterimage_read_error`: why the message cannot be read. -#}
{%- macro _debezium_opened(value, key, schemas) -%}
{%- set known_schemas -%}
select /*+ broadcast */
                try_cast(id as bigint) as registered_id,
                max(`schema`) as registered_schema

            from {{ schemas }}
            where `schema` is not null
            group by 1
{%- endset -%}
(
    select
        *,
        if(
            afterimage_value_id is null and afterimage_missing_id is null,
            {{ afterimage._valid_text(value.sql) }},
            coalesce(afterimage_value_message.message, hex({{ value.sql }}))
        ) as afterimage_value,
        if(afterimage_key_id is null, {{ afterimage._valid_text(key.sql) }}, hex({{ key.sql }})) as afterimage_key,
        if(afterimage_key_id is null, {{ afterimage._valid_text(key.sql) }}, afterimage_key_message.message) as afterimage_key_row,
        coalesce(
            concat({{ afterimage._debezium_no_schema() }}, afterimage_missing_id),
            concat('not an Avro message: ', afterimage_value_message.error)
        ) as afterimage_read_error

    from (
        select
            landed.*,
            coalesce(
                if(value_schemas.registered_id is null, afterimage_value_id, null),
                if(key_schemas.registered_id is null, afterimage_key_id, null)
            ) as afterimage_missing_id,
            decode_registry_message(
                {{ value.sql }},
                if(afterimage_key_id is null or key_schemas.registered_id is not null, value_schemas.registered_schema, null)
            ) as afterimage_value_message,
            decode_registry_message({{ key.sql }}, key_schemas.registered_schema) as afterimage_key_message

        from (
            select
                *,
                {{ afterimage._debezium_schema_id(value) }} as afterimage_value_id,
                {{ afterimage._debezium_schema_id(key) }} as afterimage_key_id

            from <rows>
        ) as landed
        left outer join (
            {{ known_schemas }}
        ) as value_schemas
            on landed.afterimage_value_id = value_schemas.registered_id
        left outer join (
            {{ known_schemas }}
        ) as key_schemas
            on landed.afterimage_key_id = key_schemas.registered_id
    ) as decoded
)
{%- endmacro -%}


{#- The id in the frame of an Avro message: a zero byte, the id in four bytes, the message. NULL for other bytes. -#}
{%- macro _debezium_schema_id(column) -%}
    {%- if column.type != 'binary' -%}
        {{ return('cast(null as bigint)') }}
    {%- endif -%}
    {{ return(
        'if(length(' ~ column.sql ~ ') >= 5 and startswith(' ~ column.sql ~ ", X'00'), cast(conv(hex(substring("
        ~ column.sql ~ ', 2, 4)), 16, 10) as bigint), null)'
    ) }}
{%- endmacro -%}


{#- Raises an error if several calls of a model read tombstones and have no `key`: these look the same, so that
    each call would make a change of the same id. Notes how to look for those of this call. -#}
{%- macro _debezium_look_for_tombstones(side, value) -%}
    {%- set query = 'select 1 from ' ~ side.rows ~ ' where ' ~ value ~ ' is null and (' ~ (side.condition or 'true')
        ~ ') limit 1' -%}
    {%- set notes = afterimage._noted_intakes() -%}
    {%- for other in notes if other.tombstones -%}
        {%- if run_query(query).rows | length > 0 and run_query(other.tombstones).rows | length > 0 -%}
            {%- do exceptions.raise_compiler_error(
                'debezium_messages: without `key` the tombstones of several raw tables are the same. Give `key` in each call,'
                ~ ' or unite the tables in a view, and read that. Got: ' ~ other.name ~ ', ' ~ side.name
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if notes -%}
        {%- do config.model.config.meta['afterimage_intakes'][-1].update({'tombstones': query}) -%}
    {%- endif -%}
{%- endmacro -%}


{#- The reject reason of a message that waits for its schema; the schema's id follows. -#}
{%- macro _debezium_no_schema() -%}
'no schema has the id: '
{%- endmacro -%}


{#- A query that returns a row if a schema has come that messages of earlier runs wait for. -#}
{%- macro _debezium_schema_came(schemas) -%}
select 1
from {{ this }} as staged
inner join {{ schemas }} as schemas
    on
        staged.reject_reason = concat({{ afterimage._debezium_no_schema() }}, try_cast(schemas.id as bigint))
        and schemas.`schema` is not null
-- Lets Iceberg skip the files in which no message waits.
where startswith(staged.reject_reason, {{ afterimage._debezium_no_schema() }})
limit 1
{%- endmacro -%}


{#- Where a change is in the order of the log. A row of an incremental snapshot comes after the change that its `source`
    names. PostgreSQL's comes behind the last commit, before the changes of the next transaction: without watermarks in
    the log (`read.only`) it is the first of them that has the connector send the row, which has its place then. -#}
{%- macro _debezium_place_in_log() -%}
    {{ return(
        "concat(if(m.kind = 'reload' and startswith(m.source.sequence, '['), rpad(left(m.log_place, 20), 40, '0'), m.log_place), "
        ~ "if(m.kind = 'reload', '.i', ''))"
    ) }}
{%- endmacro -%}


{#- What a change keeps of its stored row (a part of what _known_rules takes), if messages of it are no longer landed.
    - Its place, if it is sent again, also in another partition: behind the places of later changes it would undo them.
      Where changes share a place in the log, an id may go over to another one; so the row must be the same, or a half of
      a key change.
    - A key change of which only one message is read again stays whole.
    A model that `is_united` stops where a message would replace one of another raw table. -#}
{%- macro _debezium_known(position, headers, columns, unique_key, is_united) -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return({}) }}
    {%- endif -%}
    {%- set are_good = 'known.reject_reason is null and changes.reject_reason is null' -%}
    {%- set same_old_key = afterimage._same_columns('known.`before`', 'changes.`before`', unique_key) -%}
    {%- set same_new_key = afterimage._same_columns('known.`after`', 'changes.`after`', unique_key) -%}
    {%- set kept, rules = {}, {} -%}
    {%- if position -%}
        {%- set length = 19 * position | length -%}
        {%- set change_seq -%}
if(
        left(known.change_seq, {{ length }}) < left(changes.change_seq, {{ length }})
        and {{ are_good }}
        and case
            when known.operation = changes.operation
                then {{ afterimage._same_columns('known.`before`', 'changes.`before`', columns) }}
                    and {{ afterimage._same_columns('known.`after`', 'changes.`after`', columns) }}
            when known.operation = 'delete' and changes.operation = 'update' then {{ same_old_key }}
            when known.operation = 'update' and changes.operation = 'insert' then {{ same_new_key }}
        end,
        concat(left(known.change_seq, {{ length }}), substr(changes.change_seq, {{ length + 1 }})),
        changes.change_seq
    )
        {%- endset -%}
        {%- if is_united -%}
            {#- A message without its place in the log is named by its offset alone; all other ids have a `-`. -#}
            {%- set message = 'debezium_messages: a message would replace a change of another raw table in ' ~ this
                ~ '. Both have the same `position`, and neither message has its place in the log. Give each table a'
                ~ ' number in a view that unites them, put that number first in `position`, and run `dbt run'
                ~ ' --full-refresh --select ' ~ model.name ~ '+`. Got: ' -%}
            {%- set is_of_same_key = afterimage._same_columns(
                'coalesce(known.`after`, known.`before`)', 'coalesce(changes.`after`, changes.`before`)', unique_key
            ) -%}
            {%- set change_seq = 'if(' ~ are_good ~ " and not contains(known.change_id, '-') and not ("
                ~ is_of_same_key ~ '), raise_error(concat(' ~ afterimage._literal(message) ~ ', changes.change_id)), '
                ~ change_seq ~ ')' -%}
        {%- endif -%}
        {%- do kept.update({'change_seq': change_seq}) -%}
    {%- endif -%}
    {%- if headers -%}
        {#- Of several key changes at one place that can be no pairs, both messages are read. -#}
        {%- set is_whole = are_good
            ~ " and changes.has_one_key_each is null and known.operation = 'update' and changes.operation = " -%}
        {%- set has_lost_delete = is_whole ~ "'insert' and " ~ same_new_key -%}
        {%- for column, value in {
            'operation': 'known.operation', 'before': 'known.`before`', 'warnings': 'known.warnings',
            'source_rows': 'greatest(known.source_rows, changes.source_rows)',
        }.items() -%}
            {%- do kept.update({column: 'if(' ~ has_lost_delete ~ ', ' ~ value ~ ', changes.`' ~ column ~ '`)'}) -%}
        {%- endfor -%}
        {%- do rules.update({
            'unchanged_if': is_whole ~ "'delete' and " ~ same_old_key, 'carried': ['has_one_key_each'],
        }) -%}
    {%- endif -%}
    {{ return(dict(rules, kept=kept)) }}
{%- endmacro -%}
