{#- Debezium messages on Kafka -> change contract. Arguments: debezium_messages.yml. -#}
{%- macro debezium_messages(
    relation, unique_key, columns, value='value', key=none, position=none, placeholder='__debezium_unavailable_value',
    table=none, headers=none, schemas=none, null_is_absent=none, infinity=none
) -%}
    {%- set macro_name = 'debezium_messages' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'position', position) -%}
    {%- do afterimage._check_names(macro_name, 'null_is_absent', null_is_absent) -%}
    {%- do afterimage._check_choice(macro_name, 'infinity', infinity, ['bound', 'null', 'reject'])
        if infinity is not none -%}
    {%- set texts = {'value': value, 'key': key, 'placeholder': placeholder, 'table': table, 'headers': headers} -%}
    {%- for argument, given in texts.items() if given is not none -%}
        {%- do afterimage._check_text(macro_name, argument, given) -%}
    {%- endfor -%}
    {%- set typed = [] -%}
    {%- for column in afterimage._typed_columns(
        macro_name, columns, ['timestamp(p)', 'timestamp_ntz(p)', 'time(p)', 'array<string>'],
        ['base64', 'hex', 'json', 'text']
    ) -%}
        {%- do afterimage._check_json_is_text(macro_name, column) -%}
        {#- Spark has no type for a time of day. -#}
        {%- set is_time = column.type.startswith('time(') -%}
        {%- do typed.append(
            dict(column, type='string', is_time=true, precision=column.type[-2] | int) if is_time else column
        ) -%}
    {%- endfor -%}
    {%- set columns = typed -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, names) -%}
    {%- do afterimage._check_known(macro_name, 'null_is_absent', null_is_absent, names) -%}
    {%- set unique_key = afterimage._in_column_order(unique_key, names) -%}
    {%- if afterimage._needs_placeholder([relation, schemas]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- do afterimage._check_called_once(macro_name, relation, table) -%}
    {%- set landing = afterimage._debezium_landing(relation, value, key, position, headers, schemas) -%}
    {%- set new_shape = afterimage._check_drift(macro_name, relation, columns, table=table) -%}
    {%- set group = afterimage._debezium_group(
        landing.value, landing.key, landing.position, position, keys='md5(' ~ afterimage._texts_of_map('m.row', unique_key) ~ ')',
        reload=afterimage._debezium_load_hash('reload')
    ) -%}
    {%- set side = {
        'relation': relation,
        'opened': landing.opened,
        'group': afterimage._debezium_of_message(afterimage._exact_numbers(landing.value, names), group),
        'known_group': afterimage._debezium_known_group(has_position=position),
        'time': afterimage._debezium_of_message(landing.value, 'm.source_time') if schemas is none else none,
    } -%}
    {#- Copies of a change share its place in the log, but have offsets of their own. -#}
    {%- if not position -%}
        {%- set place = afterimage._debezium_of_message(
            landing.value, "if(m.kind <> 'load', " ~ landing.place ~ ", '')"
        ) -%}
        {%- do side.update({'place': place, 'has_place': "coalesce(" ~ place ~ " <> '', false)", 'reach': 12}) -%}
    {%- endif -%}
    {%- set sides = [side] -%}
    {%- if schemas is not none -%}
        {#- Messages that wait for their schema may belong to any place. -#}
        {%- do sides.append({
            'relation': schemas, 'is_tracked': false, 'holds_changes': false,
            'wakes': afterimage._debezium_schema_came(schemas),
        }) -%}
    {%- endif -%}
    {%- set intake = afterimage._intake(
        macro_name, unique_key, sides, new_shape, declared=columns, made_by={
            'table': table | lower if table else none,
            'position': (position or ['none']) | map('lower') | join(', '), 'headers': 'given' if headers else 'none',
        }
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {%- if key is none -%}
        {%- do afterimage._debezium_look_for_tombstones(intake.sides[0], landing.bytes) -%}
    {%- endif -%}
    {%- do afterimage._allow_many_steps() -%}
    {#- `names` and `placeholders` are SQL; `sparse` are the columns of null_is_absent (none if it is left out);
        `usual`: the steps that read usual messages, if there may be many; the others are the arguments of these names. -#}
    {%- set layout = {
        'columns': columns, 'names': afterimage._string_array(names), 'unique_key': unique_key, 'table': table,
        'placeholder': placeholder, 'placeholders': afterimage._debezium_placeholders(placeholder), 'infinity': infinity,
        'has_position': position is not none and position | length > 0,
        'sparse': none if null_is_absent is none else afterimage._match_column_case(null_is_absent, names),
    } -%}
    {%- do layout.update({
        'usual': afterimage._debezium_usual_steps(layout)
            if landing.opened is none and afterimage._are_many(relation, intake) else [],
    }) %}
with

{{ afterimage._debezium_images(intake.sides[0], landing, layout) }},

{{ afterimage._debezium_classified(landing, layout) }},

{{ afterimage._distinct_rows(
    'classified', by='change_group, identity, row_id', first='own_place, landed_position, changed_at',
    together='change_group'
) }},

{% if headers -%}
{{ afterimage._paired_rows('change_group, identity', 'is_moved', ['image', 'copies', 'own_place'], only_moves=true) }},

{% endif -%}
described as (

    select
        *,
        {{ "if(partner is null, row_kind, 'update')" if headers else 'row_kind' }} as kind,
        {%- if headers %}
        -- Its first half may have been staged at its place alone: a history notices no change that moves to a later one.
        least(own_place, partner.own_place) as place,
        if(partner is null, row_before, {{ afterimage._debezium_before_move(columns, unique_key) }}) as before_image,
        {%- else %}
        own_place as place,
        row_before as before_image,
        {%- endif %}
        {%- if headers and position %}
        if(
            partner is null and is_moved and not is_before and absent_columns is not null,
            array_append(coalesce(own_warnings, cast(array() as array<string>)), if(
                m.log_place is null,
                'the row came from another key, and the message does not have its place in the log: columns that it lacks are unknown',
                {{ afterimage._literal(
                    'the row came from a key whose delete is not in this partition: columns that the message lacks are '
                    ~ 'unknown. Leave `position` out'
                ) }}
            )),
            own_warnings
        ) as warnings,
        {%- else %}
        own_warnings as warnings,
        {%- endif %}
        cast(copies{{ ' + coalesce(partner.copies, 0)' if headers }} as int) as source_rows

    from {{ 'paired_rows' if headers else 'distinct_rows' }}

),

{#- Of several loads of a key the last one wins. It comes first among their identities, so that it replaces an
    earlier one that is no longer landed. -#}
{{ afterimage._finish(
    intake, names, afterimage._column_types(columns), unique_key,
    lacks=['changed_columns', 'changed_by'],
    ties={
        'within': ['change_group'],
        'identity_order': "if(kind = 'load', landed_position, null) desc nulls last, if(kind = 'load', m.source_time, null)"
            ~ ' desc nulls last, own_key asc, kind asc, row_id asc',
        'order': 'landed_position desc nulls last, m.source_time desc nulls last, row_id asc',
        'delete_first': not layout.has_position,
    },
    old_key='before_image is not null',
    known=dict(
        afterimage._debezium_known(
            position, headers, names | reject('in', intake.added) | list, unique_key, intake.is_united
        ),
        replaced=afterimage._debezium_replaced(intake, landing, names) if intake.kind == 'all'
    )
) }}
{%- endmacro -%}


{#- Whether a message is the insert of a key change, by its headers. A flattened row without `__op` is an update. -#}
{%- macro _debezium_came() -%}
    {{ return("(m.op in ('c', 'u') and coalesce(contains(headers, '__debezium.oldkey'), false))") }}
{%- endmacro -%}


{#- The identity of a change that is no half of a key change, or a rejected one. -#}
{%- macro _debezium_identity_alone() -%}
    {{ return("concat(m.log_place, '-', m.op, '-', key_hash)") }}
{%- endmacro -%}


{#- The CTEs from `images` to `classified`: what each message says, or why it is no change; its place and identity. -#}
{%- macro _debezium_classified(landing, layout) -%}
{%- set keys = layout.unique_key -%}
{%- set load_hash = 'load_hash' if layout.usual else afterimage._debezium_load_hash() -%}
classified as (

    select
        *,
        if(m.kind = 'load', '', coalesce({{ landing.place }}, '')) as own_place,
        coalesce(m.source.schema, m.source.db) as schema_name,
        case
            when is_tombstone then 'tombstone: the value is NULL'
            when unread is not null then unread
            when m.op is null and m.payload is null and startswith(value, decode(X'00', 'UTF-8')) then {{ landing.no_frame }}
            when m.op is null and m.payload is null then concat('not a JSON message: ', left(value, 60))
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
            when m.kind <> 'load' and own_place = '' then concat('no place in the order: ', {{ landing.place_missing }})
            when m.kind = 'truncate' then null
            when image is null then 'the message holds no row'
            when size(misfits) > 0 then concat('a value does not fit its column: ', array_join(misfits, ', '))
            when {{ afterimage._has_null_key(keys) }} then {{ afterimage._null_key_reason(keys) }}
            when is_key_made_up then {{ afterimage._literal(
                'the key of the deleted row may be made up (' ~ keys | join(', ') ~ '): PostgreSQL shows its REPLICA IDENTITY alone'
            ) }}
        end as reject_reason,
        m.kind as row_kind,
        {{ afterimage._debezium_group(
            afterimage._valid_text('value'), 'message_key', 'landed_position', layout.has_position, keys='key_hash', reload=load_hash
        ) | indent(8) }} as change_group,
        {{ afterimage._struct(keys, 'image.') }} as own_key,
        -- Headers link the delete and the insert of a key change. Offsets of two partitions have no order.
        reject_reason is null
        and (m.op = 'd' and coalesce(contains(headers, '__debezium.newkey'), false) or {{ afterimage._debezium_came() }}) as is_moved,
        is_moved and m.op = 'd' as is_before,
        case
            when m.op is null or m.op = 'm' then concat('rejected-', md5(coalesce(value, message_key, '')))
            -- A rejected load must not take the place of a good one that is no longer landed.
            when m.kind = 'load' and reject_reason is not null then concat(change_group, '-r', {{ load_hash }})
            when m.kind = 'load' then change_group
            when m.log_place is null then coalesce(landed_position, concat('rejected-', md5({{ afterimage._valid_text('value') }})))
            when m.kind = 'reload' then concat('load-', {{ load_hash }})
            when is_moved then concat(m.log_place, '-k', landed_partition)
            else {{ afterimage._debezium_identity_alone() }}
        end as identity,
        {{ afterimage._hash_of_values(afterimage._hashable_images(layout.columns, ['image', 'row_before']) + [
            'm.kind', 'unknown_columns', 'reject_reason', "if(m.kind = 'load', source_text, null)"
        ]) | indent(8) }} as row_id,
        if(image is null or m.op = 'd', null, nullif(unknown_columns, cast(array() as array<string>))) as absent_columns,
        if(m.kind = 'load', null, m.source_time) as changed_at,
        if(m.kind = 'load', null, coalesce(m.source.txId, m.source.gtid, m.source.commit_lsn)) as transaction_id,
        if(reject_reason is null, nullif({{ afterimage._texts_where([
            ["m.kind <> 'load' and m.source_time is null", "'changed_at is unknown: source.ts_ms is no time'"],
            ['size(bounded) > 0', "concat('infinity is read as the last or the first time that fits: ', array_join(bounded, ', '))"],
            ['size(no_numbers) > 0', "concat('no number, NULL is in its place: ', array_join(no_numbers, ', '))"],
            [
                'size(doubtful_nulls) > 0',
                "concat('NULL may be a value that was not captured, see `null_is_absent`: ', array_join(doubtful_nulls, ', '))"
            ],
            ['size(undeclared) > 0', "concat('columns that are not declared: ', array_join(undeclared, ', '))"],
            [
                "m.op = 'c' and is_postgresql and not is_moved and arrays_overlap(unknown_columns, map_keys(m.row))",
                "'the row came from another key, and no header says from which: columns that it lacks are unknown'"
            ],
            [
                "m.kind = 'load' and not m.is_envelope and m.source.snapshot is null",
                "'without source.snapshot a row of an incremental snapshot looks like one of a full load'"
            ],
        ]) }}, cast(array() as array<string>)), null) as own_warnings

    from images

)
{%- endmacro -%}
