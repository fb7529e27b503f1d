{#- The CTEs from `images` to `judged`: what each message says, or why it is no change; its place and identity. -#}
{%- macro _debezium_judged(landing, layout) -%}
{%- set keys = layout.unique_key -%}
judged as (

    select
        *,
        if(m.kind = 'load', '', coalesce({{ landing.place }}, '')) as place,
        coalesce(m.source.schema, m.source.db) as schema_name,
        case
            when value is null or value rlike '^\\s*(null|[{]\\s*"schema".*"payload"\\s*:\\s*null\\s*[}])\\s*$'
                then 'tombstone: the value is NULL'
            when unread is not null then unread
            when m.payload is null and startswith(value, decode(X'00', 'UTF-8')) then {{ landing.no_frame }}
            when m.payload is null then concat('not a JSON message: ', left(value, 60))
            when m.payload['ts_ms'] is not null and array_except(map_keys(m.payload), array('ts_ms', 'ts_us', 'ts_ns')) = array()
                then 'heartbeat: it holds no change'
            when m.op is null and map_contains_key(m.payload, 'ddl') then 'schema change: it holds no row'
            when m.op is null and m.payload['status'] in ('BEGIN', 'END') then 'transaction boundary: it holds no row'
            when m.op is null then concat('neither an envelope nor a row with __op or __deleted: ', left(value, 60))
            when m.op = 'm' then 'logical message: it holds no row'
            {%- if layout.table is not none %}
            {%- set is_of_table = afterimage._is_table(layout.table, 'schema_name', 'm.source.`table`') %}
            when {{ is_of_table }} is null then 'the message does not say which table it is of'
            when not {{ is_of_table }} then concat('of another table: ', concat_ws('.', schema_name, m.source.`table`))
            {%- endif %}
            when m.kind = 'unknown' then concat('unknown operation: "', left(m.op, 60), '"')
            when m.kind <> 'load' and place = '' then concat('no place in the order: ', {{ landing.no_place }})
            when m.kind = 'truncate' then null
            when row_values is null then 'the message holds no row'
            when size(misfits) > 0 then concat('a value does not fit its column: ', array_join(misfits, ', '))
            when {{ afterimage._has_null_key(keys) }} then {{ afterimage._null_key_reason(keys) }}
        end as reject_reason,
        m.kind as row_kind,
        {{ afterimage._debezium_group('value', 'message_key', 'landed_position', keys) | indent(8) }} as change_group,
        {{ afterimage._struct(keys, 'image.') }} as own_key,
        -- Headers link the delete and the insert of a key change. Offsets of two partitions have no order.
        reject_reason is null
        and coalesce(contains(headers, decode(m.op, 'd', '__debezium.newkey', 'c', '__debezium.oldkey')), false) as is_moved,
        is_moved and m.op = 'd' as is_before,
        case
            when m.op is null or m.op = 'm' then concat('rejected-', md5(coalesce(value, message_key, '')))
            when m.kind = 'load' then change_group
            when m.log_place is null then coalesce(landed_position, concat('rejected-', md5(value)))
            when m.kind = 'reload' then concat('load-', md5(to_json(struct(m.row, m.source))))
            when is_moved then concat(m.log_place, '-k', landed_partition)
            else concat(m.log_place, '-', m.op, '-', md5({{ afterimage._texts_of_map('row_values', keys) }}))
        end as identity,
        xxhash64({{ afterimage._exact_json(
            "struct(m.kind, image, row_before, unknown_columns, reject_reason, if(m.kind = 'load', m.source, null))"
        ) | indent(8) }}) as row_id,
        if(image is null or m.op = 'd', null, nullif(unknown_columns, cast(array() as array<string>))) as absent_columns,
        if(m.kind = 'load', null, m.source_time) as changed_at,
        if(m.kind = 'load', null, coalesce(m.source.txId, m.source.gtid, m.source.commit_lsn)) as transaction_id,
        if(reject_reason is null, nullif(array_compact(array(
            if(m.kind <> 'load' and m.source_time is null, 'changed_at is unknown: source.ts_ms is no time', null),
            if(size(bounded) > 0, concat('infinity is read as the last or the first time that fits: ', array_join(bounded, ', ')), null),
            if(size(no_numbers) > 0, concat('no number, NULL is in its place: ', array_join(no_numbers, ', ')), null),
            if(size(doubtful_nulls) > 0, concat(
                'NULL may be a value that was not captured, see `null_is_absent`: ', array_join(doubtful_nulls, ', ')
            ), null),
            if(size(undeclared) > 0, concat('columns that are not declared: ', array_join(undeclared, ', ')), null)
        )), cast(array() as array<string>)), null) as own_warnings

    from images

)
{%- endmacro -%}
