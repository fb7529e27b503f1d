{#- Qlik data messages on Kafka -> change contract. Arguments: qlik_messages.yml. -#}
{%- macro qlik_messages(
    relation,
    unique_key,
    columns=none,
    table=none,
    value='value',
    metadata=none,
    complete_transactions=false,
    hold_back_hours=1
) -%}
    {%- do afterimage._check_names('qlik_messages', 'unique_key', unique_key, required=true) -%}
    {%- if table is not none -%}
        {%- do afterimage._check_text('qlik_messages', 'table', table) -%}
    {%- endif -%}
    {%- do afterimage._check_choice('qlik_messages', 'complete_transactions', complete_transactions, [true, false]) -%}
    {%- do afterimage._check_number('qlik_messages', 'hold_back_hours', hold_back_hours) -%}
    {%- set landing = afterimage._qlik_landing('qlik_messages', relation, value) -%}
    {%- set schema_rows = afterimage._qlik_schema_rows(metadata, value) -%}
    {%- set columns = afterimage._qlik_message_columns(columns, metadata, schema_rows, table) -%}
    {%- if landing is none or afterimage._is_ahead_of([metadata]) -%}
        {{ return(afterimage._ahead_of_its_tables()) }}
    {%- endif -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- do afterimage._check_known('qlik_messages', 'unique_key', unique_key, names) -%}
    {%- do afterimage._check_drift('qlik_messages', metadata or relation, columns) -%}
    {%- set keys = afterimage._in_order(unique_key, names) -%}
    {%- set column_names = afterimage._string_array(names) -%}
    {%- set given_ordinals = afterimage._qlik_given_ordinals(names) -%}
    {%- set place = afterimage._qlik_message_place(keys) -%}
    {%- set turn -%}
if(kind = 'load', last_arrival, null) desc, event_counter asc nulls last, {# -#}
array_position(array('load', 'insert', 'update', 'delete'), kind) asc, content_hash asc
    {%- endset -%}
    {%- set same_turn = "if(kind = 'load', last_arrival, null), event_counter, kind, content_hash" -%}
    {%- set intake = afterimage._qlik_messages_intake(
        relation, landing, metadata, schema_rows, hold_back_hours if complete_transactions else none
    ) -%}
    {%- set further_columns = ['schema_id', 'message_position'] -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.marker ~ afterimage._nothing_staged(further_columns)) }}
    {%- endif -%}
    {%- set side = intake.sides[0] -%}
    {%- set has_reloads = intake.has_reloads -%}
    {%- set arrival = 'order_of_arrival' if has_reloads else 'arrival' -%}
    {%- set is_tied = "turn > 1 and kind <> 'load' and reject_reason is null and repeat_number = 1" -%}
    {%- set schema_id = "coalesce(envelope_schema_id, nullif(body.headers.externalSchemaId, ''), body.schemaId)" -%}
    {%- set named_schema = 'coalesce(body.lineage.schema, body.schema, body.headers.schema)' -%}
    {%- set named_table = 'coalesce(body.lineage.`table`, body.`table`, body.headers.`table`)' -%}
    {%- set is_of_table = afterimage._qlik_is_table(table, 'schema_name', 'table_name') if table is not none -%}

{{ intake.marker }}
with
{% if schema_rows is not none %}
message_schemas as (

    select
        schema_id,
        max(schema_name) as schema_name,
        max(table_name) as table_name,
        max(data_schema) as data_schema,
        map_from_entries(collect_set(struct(column_name, ordinal))) as ordinals,
        collect_set(ordinal) as all_ordinals,
        collect_set(if(is_lob, column_name, null)) as lob_columns

    from ({{ schema_rows | indent(4) }}) as schema_rows
    where reject_reason is null
    group by schema_id

),
{% endif %}
{{ afterimage._qlik_opened_messages(
    side.rows, landing, afterimage._qlik_data_fields(), 'message_schemas' if schema_rows is not none else none,
    side.condition
) }},

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
        {%- if schema_rows is not none %}
        message_schemas.schema_id is not null as has_schema,
        coalesce(message_schemas.schema_name, {{ named_schema }}) as schema_name,
        coalesce(message_schemas.table_name, {{ named_table }}) as table_name,
        coalesce(message_schemas.ordinals, {{ given_ordinals.map }}) as ordinals,
        coalesce(message_schemas.all_ordinals, {{ given_ordinals.list }}) as all_ordinals,
        message_schemas.lob_columns
        {%- else %}
        {{ named_schema }} as schema_name,
        {{ named_table }} as table_name,
        {{ given_ordinals.map }} as ordinals,
        {{ given_ordinals.list }} as all_ordinals
        {%- endif %}

    from opened_messages
    {%- if schema_rows is not none %}
    left outer join (select /*+ broadcast */ * from message_schemas) as message_schemas
        on {{ schema_id }} = message_schemas.schema_id
    {%- endif %}

),
{% if complete_transactions %}
{{ afterimage._qlik_transactions(hold_back_hours, intake.ranges) }}
{% endif %}
masked as (

    select
        located.*,
        {%- if table is not none %}
        not {{ is_of_table }} as is_of_another_table,
        {%- endif %}
        decode_change_mask(change_mask, 0, 'hex') as changed_ordinals,
        decode_change_mask(column_mask, 0, 'hex') as present_ordinals,
        -- A delete has its row in data or in beforeData, or the key in one and the rest in the other.
        case
            when not operation_word <=> 'DELETE' or before_data is null then data
            when data is null then before_data
            else map_zip_with(data, before_data, (name, value, value_before) -> coalesce(value, value_before))
        end as row_values,
        if(operation_word = 'UPDATE', before_data, null) as before_values

    from {{ 'settled_transactions' if complete_transactions else 'located' }} as located
    {%- if table is not none and afterimage._is_incremental() %}
    left outer join (
        -- A load that waits may be there several times, with a number behind it.
        select distinct left(change_id, 32) as change_id
        from {{ this }}
        where reject_reason like concat({{ afterimage._qlik_no_schema() }}, '%')
    ) as waiting
        on located.message_id = waiting.change_id
    {%- endif %}
    {%- if table is not none %}
    -- What is of another table is that table's business. A message that waited here for its schema stays, as it is
    -- here already.
    where
        coalesce({{ is_of_table }}, true)
        {%- if afterimage._is_incremental() %}
        or waiting.change_id is not null
        {%- endif %}
    {%- endif %}

),
{% if has_reloads %}
{{ afterimage._qlik_reloads(has_table=table is not none) }}
{% endif %}
images as (

    select
        masked.*,
        concat(
            {{ afterimage._qlik_misfits(columns, 'row_values', '') | indent(12) }},
            {{ afterimage._qlik_misfits(columns, 'before_values', ' before') | indent(12) }}
        ) as misfits,
        if(row_values is null, null, {{ afterimage._qlik_image(columns, 'row_values') | indent(8) }}) as image,
        -- A before-image may leave out what it can, but the row is the same one.
        if(
            before_values is null,
            null,
            {{ afterimage._qlik_image(columns, 'before_values', 'row_values', keys) | indent(12) }}
        ) as before_image,
        {{ afterimage._qlik_message_absent(columns, keys, schema_rows is not none) | indent(8) }} as absent_columns,
        if(
            changed_ordinals is null,
            null,
            {{ afterimage._qlik_message_changed(columns, schema_rows is not none) | indent(12) }}
        ) as changed_columns,
        array_except(changed_ordinals, all_ordinals) as unknown_changed,
        array_except(present_ordinals, all_ordinals) as unknown_present,
        array_except(
            array_union(
                coalesce(map_keys(data), cast(array() as array<string>)),
                coalesce(map_keys(before_data), cast(array() as array<string>))
            ),
            {{ column_names }}
        ) as undeclared

    from masked

),

judged as (

    select
        message_id,
        arrival,
        message_position,
        schema_id,
        landed_seq,
        has_seq,
        transaction_id,
        event_counter,
        image,
        before_image,
        changed_columns,
        absent_columns,
        case operation_word
            when 'REFRESH' then 'load'
            when 'INSERT' then 'insert'
            when 'UPDATE' then 'update'
            when 'DELETE' then 'delete'
        end as kind,
        case
            when landed_time >= timestamp '1970-01-02 00:00:00' then landed_time
        end as source_time,
        -- Several changes may share a changeSequence, of one key or of several: the counter of their transaction orders
        -- them. It begins at 1, and stands here from 2 on whatever else has come, so that no place depends on that.
        case
            when operation_word = 'REFRESH' or not has_seq then ''
            else concat(landed_seq, if(event_counter > 1, concat('.c', lpad(event_counter, 19, '0')), ''))
        end as {{ 'own_place' if has_reloads else 'place' }},
        -- As JSON, because a hash of the fields themselves takes (NULL, 1) and (1, NULL) for the same.
        xxhash64({{ afterimage._exact_json('struct(image, before_image)') }}) as content_hash,
        case
            when is_tombstone then 'tombstone: the value is NULL'
            when avro_error is not null then concat('not an Avro message: ', avro_error)
            when is_metadata then 'metadata message: it holds no change'
            when not magic <=> 'atMSG' and not (magic is null and type is null) and not is_avro
                then concat('magic is not atMSG: ', coalesce(concat('"', magic, '"'), 'NULL'))
            when type <> 'DT' then concat('unknown message type: "', type, '"')
            when is_avro and not has_body and schema_id is null then 'the message has no schema id'
            when is_avro and not has_body
                then {{ "concat(if(has_schema, 'the metadata message has no dataSchema: ', "
                    ~ afterimage._qlik_no_schema() ~ "), schema_id)" if schema_rows is not none
                    else "'Avro cannot be read: qlik_messages was given no metadata'" }}
            when not has_body then concat('not a JSON message: ', coalesce(left(json_text, 60), 'NULL'))
            {%- if table is not none %}
            when table_name is null
                then {{ "if(schema_id is null or has_schema, 'the message does not say which table it is of', concat("
                    ~ afterimage._qlik_no_schema() ~ ", schema_id))" if schema_rows is not none
                    else "'the message does not say which table it is of'" }}
            when is_of_another_table is null
                then concat('the message does not say which schema its table is of: ', table_name)
            when is_of_another_table then concat('of another table: ', coalesce(concat(schema_name, '.'), ''), table_name)
            {%- endif %}
            when operation_word is null or operation_word not in ('REFRESH', 'INSERT', 'UPDATE', 'DELETE')
                then concat('unknown operation: ', coalesce(concat('"', operation_word, '"'), 'NULL'))
            when operation_word <> 'REFRESH' and not has_seq
                then concat('changeSequence is not 35 digits: ', coalesce(concat('"', landed_seq, '"'), 'NULL'))
            when change_mask is not null and changed_ordinals is null
                then concat('changeMask cannot be decoded: "', left(change_mask, 60), '"')
            when column_mask is not null and present_ordinals is null
                then concat('columnMask cannot be decoded: "', left(column_mask, 60), '"')
            when row_values is null then 'the message holds no data'
            when size(misfits) > 0 then concat('a value does not fit its column: ', array_join(misfits, ', '))
            when
                {% for key in keys %}image.{{ afterimage._quote(key) }} is null{{ ' or ' if not loop.last }}{% endfor %}
                then {{ afterimage._literal('NULL in the key (' ~ (keys | join(', ')) ~ ')') }}
            {%- if complete_transactions %}
            when is_held_back
                then concat(
                    'held back: transaction ', transaction_id, ' has ', events_here, ' of ',
                    coalesce(cast(last_event as string), 'more'), ' events'
                )
            {%- endif %}
        end as reject_reason,
        array_compact(array(
            if(
                landed_time is null and landed_time_text is not null,
                concat('timestamp is no time: "', left(landed_time_text, 60), '"'),
                null
            ),
            if(
                size(unknown_changed) > 0,
                concat('changeMask has bits past the last column: ', array_join(unknown_changed, ', ')),
                null
            ),
            if(
                size(unknown_present) > 0,
                concat('columnMask has bits past the last column: ', array_join(unknown_present, ', ')),
                null
            ),
            if(size(undeclared) > 0, concat('columns that are not declared: ', array_join(undeclared, ', ')), null),
            if(
                {%- for key in keys %}
                {%- set name = afterimage._literal(key) %}
                (array_contains(changed_columns, {{ name }}) and before_values[{{ name }}] is null)
                {{- ' or' if not loop.last }}
                {%- endfor %},
                if(operation_word = 'UPDATE', 'the key changed, but without a before-image the old key is unknown', null),
                null
            ),
            if(
                operation_word = 'UPDATE' and before_image is not null
                and not ({{ afterimage._same_columns('image', 'before_image', keys) }})
                and exists(absent_columns, name -> before_values[name] is null),
                {{ afterimage._literal(afterimage._moved_incomplete()) }},
                null
            )
            {%- if schema_rows is not none %},
            if(
                schema_id is not null and not has_schema and not is_avro and coalesce(change_mask, column_mask) is not null,
                concat({{ afterimage._qlik_no_schema() }}, schema_id),
                null
            )
            {%- endif %}
            {%- if complete_transactions %},
            if(
                is_incomplete and not is_held_back,
                concat(
                    'the transaction is not complete: ', events_here, ' of ',
                    coalesce(cast(last_event as string), 'more'), ' events'
                ),
                null
            )
            {%- endif %}
        )) as oddities

    from images

),

{%- if has_reloads %}

-- What a reload finds changed is a change of its time. The offsets tell which of its messages came last.
placed as (

    select
        judged.*,
        coalesce(reloads.place, judged.own_place) as place,
        reloads.place is not null as is_reload,
        if(
            reloads.place is null,
            judged.arrival,
            struct(
                cast(null as timestamp) as landed_at,
                judged.arrival.landed_partition as landed_partition,
                judged.arrival.landed_offset as landed_offset
            )
        ) as order_of_arrival

    from judged
    left outer join reloads
        on
            judged.kind = 'load'
            and judged.message_id = reloads.message_id
            and judged.message_position <=> reloads.message_position

),
{%- endif %}

-- A message delivered twice counts once: a reload or a restart writes what it wrote before.
copies as (

    select
        *,
        row_number() over (partition by {{ place }}, message_id order by {{ 'order_of_arrival, ' if has_reloads }}arrival) as copy_number,
        count(*) over (partition by {{ place }}, message_id) as copies,
        max({{ arrival }}) over (partition by {{ place }}, message_id) as last_arrival,
        min(message_position) over (partition by {{ place }}, message_id) as first_position
        {%- if has_reloads %},
        -- A later reload may find a row as an earlier one did: that is a change of its own.
        dense_rank() over (partition by message_id order by place) as number_of_place
        {%- endif %}

    from {{ 'placed' if has_reloads else 'judged' }}

),

-- Of the loads of one key the last counts. Changes of one key that share a place have a declared order, delete last. A
-- change that two messages hold is one; the first with a real time counts.
numbered as (

    select
        *,
        dense_rank() over (partition by {{ place }} order by {{ turn }}) as turn,
        row_number() over (
            partition by {{ place }}, {{ same_turn }} order by source_time is null, arrival, message_id
        ) as repeat_number,
        -- Changes that the counter cannot tell apart, as there are more than one of this number.
        size(collect_set(struct(kind, content_hash)) over (partition by {{ place }}, event_counter)) as changes_of_counter

    from copies
    where
        copy_number = 1

),

changes as (

    select
        {% if has_reloads -%}
        concat(message_id, if(number_of_place > 1, concat('-', number_of_place), ''))
        {%- else -%}
        message_id
        {%- endif %} as change_id,
        concat(
            place,
            if({{ is_tied }}, concat('.', lpad(turn, 3, '0')), '')
        ) as change_seq,
        {{ "if(is_reload, 'update', kind)" if has_reloads else 'kind' }} as operation,
        case kind when 'update' then before_image when 'delete' then image end as `before`,
        if(kind in ('load', 'insert', 'update'), image, null) as `after`,
        if(kind in ('insert', 'update'), changed_columns, null) as changed_columns,
        if(kind in ('load', 'insert', 'update'), absent_columns, null) as absent_columns,
        coalesce(
            source_time,
            {%- if has_reloads %}
            if(is_reload, arrival.landed_at, null),
            {%- endif %}
            {{ afterimage._qlik_seq_time('place') | indent(12) }}
        ) as changed_at,
        transaction_id,
        case
            when reject_reason is not null then reject_reason
            when kind = 'load' and turn > 1 then 'superseded: a later load of this key came'
            when repeat_number > 1 then 'repeated: another message holds the same change'
        end as reject_reason,
        nullif(array_compact(concat(
            array(
                if(
                    place <> '' and source_time is null and reject_reason is null and repeat_number = 1
                    {%- if has_reloads %}
                    and not (is_reload and arrival.landed_at is not null)
                    {%- endif %},
                    {{ afterimage._qlik_time_warning('place') | indent(20) }},
                    null
                ),
                if(
                    {{ is_tied }} and changes_of_counter > 1,
                    'another change of this key has the same change_seq',
                    null
                )
            ),
            oddities
        )), cast(array() as array<string>)) as warnings,
        copies as source_rows,
        cast(null as string) as changed_by,
        schema_id,
        first_position as message_position

    from numbered

)

{{ afterimage._staged('changes', intake, further_columns) }}
{%- endmacro -%}
