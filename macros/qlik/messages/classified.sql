{#- The CTE `masked`: the messages of the table, with decoded masks and their values before and after. -#}
{%- macro _qlik_masked_messages(layout) -%}
{%- if layout.table is not none -%}
    {%- set is_of_table = afterimage._is_table(layout.table, 'schema_name', 'table_name') -%}
{%- endif -%}
masked as (

    select
        located.*,
        {%- if layout.table is not none %}
        not {{ is_of_table }} as is_of_another_table,
        {%- endif %}
        {{ afterimage._mask_digits('change_mask', layout.columns | length) }} as changed_digits,
        {{ afterimage._mask_digits('column_mask', layout.columns | length) }} as present_digits,
        {{ afterimage._mask_bits('changed_digits', layout.columns | length) }} as changed_bits,
        {{ afterimage._mask_bits('present_digits', layout.columns | length) }} as present_bits,
        -- A delete has its row in data or in beforeData, or the key in one and the rest in the other.
        case
            when not operation_word <=> 'DELETE' or before_data is null then data
            when data is null then before_data
            else map_zip_with(data, before_data, (name, value, value_before) -> coalesce(value, value_before))
        end as row_values,
        if(operation_word = 'UPDATE', before_data, null) as before_values

    from {{ 'settled_transactions' if layout.complete_transactions else 'located' }} as located
    {%- if layout.table is not none and afterimage._is_incremental() %}
    left outer join (
        -- A waiting load may occur several times, with a number at its end.
        select distinct left(change_id, 32) as change_id
        from {{ this }}
        where reject_reason like concat({{ afterimage._qlik_no_schema() }}, '%')
    ) as waiting
        on located.message_id = waiting.change_id
    {%- endif %}
    {%- if layout.table is not none %}
    -- Messages of another table belong to that table's model. A message that waited here for its schema stays, because
    -- the model's table already holds it.
    where
        coalesce({{ is_of_table }}, true)
        {%- if afterimage._is_incremental() %}
        or waiting.change_id is not null
        {%- endif %}
    {%- endif %}

)
{%- endmacro -%}


{#- The CTE `classified`: the kind of each message, its place, and its reject reason. -#}
{%- macro _qlik_classified_messages(layout) -%}
classified as (

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
        -- Several changes, of one key or of several, may share a changeSequence; their transaction's counter orders
        -- them. It begins at 1. It is part of the place from 2 on, whatever else has arrived, so that no place depends
        -- on other messages.
        case
            when operation_word = 'REFRESH' or not has_seq then ''
            else concat(landed_seq, if(event_counter > 1, concat('.c', lpad(event_counter, 19, '0')), ''))
        end as {{ 'own_place' if layout.has_reloads else 'place' }},
        {{ afterimage._hash_of_values(
            afterimage._hashable_images(layout.columns, ['image', 'before_image'])
        ) | indent(8) }} as content_hash,
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
                    ~ afterimage._qlik_no_schema() ~ "), schema_id)" if layout.schema_rows is not none
                    else "'Avro cannot be read: qlik_messages was given no metadata'" }}
            when not has_body then concat('not a JSON message: ', coalesce(left(json_text, 60), 'NULL'))
            {%- if layout.table is not none %}
            {%- if layout.schema_rows is not none %}
            when is_of_another_table is null and schema_id is not null and not has_schema
                then concat({{ afterimage._qlik_no_schema() }}, schema_id)
            {%- endif %}
            when table_name is null then 'the message does not say which table it is of'
            when is_of_another_table is null
                then concat('the message does not say which schema its table is of: ', table_name)
            when is_of_another_table then concat('of another table: ', coalesce(concat(schema_name, '.'), ''), table_name)
            {%- endif %}
            when operation_word is null or operation_word not in ('REFRESH', 'INSERT', 'UPDATE', 'DELETE')
                then concat('unknown operation: ', coalesce(concat('"', operation_word, '"'), 'NULL'))
            when operation_word <> 'REFRESH' and not has_seq
                then concat('changeSequence is not 35 digits: ', coalesce(concat('"', landed_seq, '"'), 'NULL'))
            {%- if layout.schema_rows is not none %}
            when needs_schema and chosen_schema_id is null
                then if(
                    tables > 1,
                    'the message names neither its schema nor its table, and the metadata messages describe several',
                    'the message names no schema, and no metadata message describes its table'
                )
            {%- endif %}
            when change_mask is not null and changed_digits is null
                then concat('changeMask cannot be decoded: "', left(change_mask, 60), '"')
            when column_mask is not null and present_digits is null
                then concat('columnMask cannot be decoded: "', left(column_mask, 60), '"')
            when image is null then 'the message holds no data'
            when size(misfits) > 0 then concat('a value does not fit its column: ', array_join(misfits, ', '))
            when {{ afterimage._has_null_key(layout.unique_key) }} then {{ afterimage._null_key_reason(layout.unique_key) }}
            {%- if layout.complete_transactions %}
            when is_held_back
                then concat(
                    'held back: transaction ', transaction_id, ' has ', events_here, ' of ',
                    coalesce(cast(last_event as string), 'more'), ' events'
                )
            {%- endif %}
        end as reject_reason,
        -- Spark leaves an expression with a lambda out of the generated code. With this one in it, Java could not compile
        -- that code.
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
            {{ afterimage._qlik_delete_warning('flagged_by_delete', layout.unique_key, 'changeMask') | indent(12) }},
            if(size(undeclared) > 0, concat('columns that are not declared: ', array_join(undeclared, ', ')), null)
            {%- if layout.schema_rows is not none %},
            if(
                schema_id is not null and not has_schema and not is_avro and coalesce(change_mask, column_mask) is not null,
                concat({{ afterimage._qlik_no_schema() }}, schema_id),
                null
            ),
            if(
                is_doubtful,
                concat(
                    'the message names no schema: it is read by ', chosen_schema_id,
                    if(is_newest, ', the newest of its table by then', ', the first of its table')
                ),
                null
            )
            {%- endif %}
            {%- if layout.complete_transactions %},
            if(
                is_incomplete and not is_held_back,
                concat(
                    'the transaction is not complete: ', events_here, ' of ',
                    coalesce(cast(last_event as string), 'more'), ' events'
                ),
                null
            )
            {%- endif %}
        )) as oddities,
        not ({{ afterimage._each(
            layout.unique_key, '(array_contains(changed_columns, {name}) and ' ~ (
                'if(is_usual, before_image.{column} is null, before_values[{name}] is null)' if layout.usual
                else 'before_values[{name}] is null'
            ) ~ ')'
        ) | join(' or ') }}) as has_old_key

    from images

)
{%- endmacro -%}
