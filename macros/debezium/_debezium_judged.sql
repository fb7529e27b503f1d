{#- The CTEs from `images` to `judged`: what each message tells, or why it tells no change; its place and identity. -#}
{%- macro _debezium_judged(landing, layout) -%}
placed as (

    select
        *,
        case
            when {{ afterimage._debezium_is_incremental() }} then 'reload'
            when {{ afterimage._debezium_is_load() }} then 'load'
            else coalesce(decode(m.op, 'c', 'insert', 'u', 'update', 'd', 'delete', 't', 'truncate'), 'unknown')
        end as kind,
        {{ afterimage._debezium_change_place('landed_position' if landing.position else none) | indent(8) }} as place,
        {{ afterimage._debezium_place() | indent(8) }} as log_place,
        {{ afterimage._debezium_group('value', 'message_key', 'landed_position', layout['keys']) | indent(8) }} as change_group,
        {{ afterimage._debezium_time() }} as source_time,
        coalesce(m.source.schema, m.source.db) as schema_name,
        coalesce(contains(
            headers, decode(m.op, 'd', '__debezium.newkey', 'c', '__debezium.oldkey')
        ), false) as has_other_key

    from images

),

reasoned as (

    select
        *,
        case
            when value is null or value rlike '^\\s*(null|[{]\\s*"schema".*"payload"\\s*:\\s*null\\s*[}])\\s*$'
                then 'tombstone: the value is NULL'
            when m.payload is null then concat('not a JSON message: ', left(value, 60))
            when m.payload['ts_ms'] is not null and array_except(map_keys(m.payload), array('ts_ms', 'ts_us', 'ts_ns')) = array()
                then 'heartbeat: it holds no change'
            when m.op is null and arrays_overlap(map_keys(m.payload), array('ddl', 'tableChanges'))
                then 'schema change: it holds no row'
            when m.op is null and m.payload['status'] in ('BEGIN', 'END') and m.payload['id'] is not null
                then 'transaction boundary: it holds no row'
            when m.op is null
                then concat('neither an envelope nor a row with __op or __deleted: ', left(value, 60))
            when m.op = 'm' then 'logical message: it holds no row'
            {%- if layout.table is not none %}
            {%- set is_of_table = afterimage._is_table(layout.table, 'schema_name', 'm.source.`table`') %}
            when {{ is_of_table | indent(8) }} is null then 'the message does not say which table it is of'
            when not {{ is_of_table | indent(8) }}
                then concat('of another table: ', concat_ws('.', schema_name, m.source.`table`))
            {%- endif %}
            when kind = 'unknown' then concat('unknown operation: "', left(m.op, 60), '"')
            when kind <> 'load' and place = ''
                then {{ "'no place: a column of `position` is no number'" if landing.position else
                    "concat('no place in the log of the database: ', to_json(m.source))" }}
            when kind = 'truncate' then null
            when row_values is null then 'the message holds no row'
            when size(misfits) > 0 then concat('a value does not fit its column: ', array_join(misfits, ', '))
            when {{ afterimage._has_null_key(layout['keys']) }} then {{ afterimage._null_key_reason(layout['keys']) }}
        end as reject_reason

    from placed

),

judged as (

    select
        *,
        has_other_key and reject_reason is null as is_moved,
        has_other_key and reject_reason is null and kind = 'delete' as is_before,
        -- Both messages of a key change are one change; over partitions of a topic they have no order.
        if(has_other_key and reject_reason is null, concat(change_group, landed_partition), identity) as pair_group,
        xxhash64({{ afterimage._exact_json('struct(kind, image, before_image, absent_columns, reject_reason)') }}) as row_id

    from (
        select
            *,
            {{ afterimage._struct(layout['keys'], 'image.') }} as own_key,
            case
                when m.op is null or m.op = 'm' then concat('rejected-', md5(coalesce(value, message_key, '')))
                when kind in ('load', 'reload') then concat('load-', md5(to_json(struct(m.row, m.source))))
                when log_place is null then coalesce(landed_position, concat('rejected-', md5(value)))
                when has_other_key and reject_reason is null then concat(log_place, '-key')
                else concat(log_place, '-', m.op, '-', md5(to_json(array(
                    {{ afterimage._debezium_keys('row_values', layout['keys']) }}
                ))))
            end as identity,
            if(kind in ('load', 'reload'), m.source.ts_ms, null) as loaded_at,
            if(kind = 'load', null, source_time) as changed_at,
            if(kind = 'load', null, coalesce(m.source.txId, m.source.gtid, m.source.commit_lsn)) as transaction_id,
            if(reject_reason is null, nullif(array_compact(array(
                if(kind <> 'load' and source_time is null, 'changed_at is unknown: source.ts_ms is no time', null),
                {%- if not landing.position %}
                if(
                    kind = 'reload',
                    'a row of an incremental snapshot has the place of the last change before it: give `position`',
                    null
                ),
                {%- endif %}
                if(size(undeclared) > 0, concat('columns that are not declared: ', array_join(undeclared, ', ')), null)
            )), cast(array() as array<string>)), null) as warnings

        from reasoned
    ) as identified

)
{%- endmacro -%}
