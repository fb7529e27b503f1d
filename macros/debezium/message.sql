{#- What a message says, as SQL over its text: names and expressions, each of which may use the names before it.
    The last is `m`, a struct that has all that the rest needs:
    - `payload`: a map of texts; NULL where the text is no JSON object, and of an envelope that one parse read,
    - `is_envelope` unless it is a flattened row,
    - `op`, and the `kind` of change, `reload` for a row of an incremental snapshot,
    - `source`, which a flattened row has beside its columns, and its time; `log_place`: the place in the log, which a
      change of the schema has too, though it is no envelope,
    - `row` after the change, and the row `before` it.

    One parse reads an envelope as connectors write it: `before` comes first, or the schema. A map of texts, whose
    members are then parsed in turn, reads everything else: flattened rows, JSON with a fault in it, NaN without
    quotes. -#}
{%- macro _debezium_message_steps(text) -%}
    {%- set fields = [] -%}
    {%- for name in afterimage._debezium_source_names() -%}
        {#- `__ts_ms` and `__ts_us` are times of the connector. -#}
        {%- do fields.append("'" ~ name ~ "', coalesce(m_envelope.source.`" ~ name ~ "`, "
            ~ "m_source_texts['" ~ name ~ "'], m_payload['__source_" ~ name ~ "']"
            ~ (", m_payload['__" ~ name ~ "']" if not name.startswith('ts_')) ~ ')') -%}
    {%- endfor -%}
    {%- set envelope = 'op: string, before: map<string, string>, after: map<string, string>, source: '
        ~ afterimage._debezium_source_type() -%}
    {%- set parsed = "if(startswith(m_text, '{\"before\":') or startswith(m_text, '{\"schema\":'), from_json(m_text, "
        ~ "'struct<" ~ envelope ~ ', payload: struct<' ~ envelope ~ ">, damage: string>', "
        ~ "map('columnNameOfCorruptRecord', 'damage', 'allowNonNumericNumbers', 'false')), null)" -%}
    {%- set one_parse -%}
case
    when m_parsed.damage is not null then null
    when m_parsed.op is not null and m_parsed.source is not null
        then named_struct(
            'op', m_parsed.op, 'before', m_parsed.before, 'after', m_parsed.after, 'source', m_parsed.source
        )
    when
        m_parsed.op is null
        and m_parsed.source is null
        and m_parsed.payload.op is not null
        and m_parsed.payload.source is not null
        then named_struct(
            'op', m_parsed.payload.op,
            'before', m_parsed.payload.before,
            'after', m_parsed.payload.after,
            'source', m_parsed.payload.source
        )
end
    {%- endset -%}
    {%- set op -%}
case
    when m_envelope is not null then m_envelope.op
    when m_is_envelope then m_payload['op']
    when lower(m_payload['__deleted']) = 'true' then 'd'
    else coalesce(m_payload['__op'], if(map_contains_key(m_payload, '__deleted'), 'u', null))
end
    {%- endset -%}
    {%- set row -%}
case
    when m_envelope is not null then m_envelope.after
    when m_is_envelope then {{ afterimage._json_map("m_payload['after']") }}
    else m_payload
end
    {%- endset -%}
    {%- set before -%}
case
    when m_envelope is not null then m_envelope.before
    when m_is_envelope then {{ afterimage._json_map("m_payload['before']") }}
end
    {%- endset -%}
    {{ return([
        ['m_text', text],
        ['m_parsed', parsed],
        ['m_envelope', one_parse],
        ['m_texts', 'if(m_envelope is not null, null, ' ~ afterimage._json_map('m_text') ~ ')'],
        ['m_payload', afterimage._debezium_payload_in('m_texts')],
        ['m_is_flattened', "map_contains_key(m_payload, '__op') or map_contains_key(m_payload, '__deleted')"],
        ['m_is_envelope',
            "m_envelope is not null or map_contains_key(m_payload, 'op') and map_contains_key(m_payload, 'source')"
            ~ " and not m_is_flattened"],
        ['m_source_texts', 'if(m_is_flattened, null, ' ~ afterimage._json_map("m_payload['source']") ~ ')'],
        ['m_source', 'named_struct(' ~ fields | join(', ') ~ ')'],
        ['m_op', op],
        ['m', afterimage._debezium_message('m_payload', 'm_is_envelope', row, before)],
    ]) }}
{%- endmacro -%}


{#- `m`, from `m_op` and `m_source`. -#}
{%- macro _debezium_message(payload, is_envelope, row, before) -%}
named_struct(
    'payload', {{ payload }},
    'is_envelope', {{ is_envelope }},
    'op', m_op,
    'kind', case
        when m_op = 'r' and lower(m_source.snapshot) = 'incremental' then 'reload'
        -- A connector that stopped in an incremental snapshot marks every change as read by a snapshot, until the
        -- snapshot goes on. Old connectors for MySQL read rows as `c`, and named no server then.
        when m_op = 'r' or (m_op = 'c' and lower(m_source.snapshot) <> 'false' and m_source.server_id = '0') then 'load'
        else coalesce(decode(m_op, 'c', 'insert', 'u', 'update', 'd', 'delete', 't', 'truncate'), 'unknown')
    end,
    'source', m_source,
    'source_time', coalesce(
        {{ afterimage._landed_count('m_source.ts_us', 'micros') }},
        {{ afterimage._landed_count('m_source.ts_ms', 'millis') }},
        {{ afterimage._landed_count('try_cast(' ~ payload ~ "['__source_ts_ns'] as bigint) div 1000", 'micros') }}
    ),
    'log_place', {{ afterimage._debezium_place() | indent(4) }},
    'row', {{ row | indent(4) }},
    'before', {{ before | indent(4) }}
)
{%- endmacro -%}


{#- The same as one expression, `body`, which uses these names. -#}
{%- macro _debezium_of_message(text, body) -%}
    {{ return(afterimage._let_all(afterimage._debezium_message_steps(text), body)) }}
{%- endmacro -%}


{#- The payload of a message's key, which may have a schema beside it. -#}
{%- macro _debezium_payload(text) -%}
    {{ return(afterimage._let('texts', afterimage._json_map(text), afterimage._debezium_payload_in('texts'))) }}
{%- endmacro -%}


{#- The payload in a map of texts that may have a schema beside it. -#}
{%- macro _debezium_payload_in(texts) -%}
    {%- set is_wrapped = 'size(' ~ texts ~ ') = 2 and map_contains_key(' ~ texts ~ ", 'schema') and map_contains_key("
        ~ texts ~ ", 'payload')" -%}
    {{ return('if(' ~ is_wrapped ~ ', ' ~ afterimage._json_map(texts ~ "['payload']") ~ ', ' ~ texts ~ ')') }}
{%- endmacro -%}


{#- The place of a change in the log of its database, from the fields of `source`; NULL if they do not give all of
    it. -#}
{%- macro _debezium_place() -%}
{%- set binlog = "concat_ws(',', m_source.file, m_source.pos, coalesce(m_source.row, '0'))" -%}
{%- set lsn = "concat_ws(',', m_source.commit_lsn, m_source.change_lsn, coalesce(m_source.event_serial_no, '0'))" -%}
{%- set scn = "concat_ws(',', m_source.commit_scn, m_source.scn, coalesce(m_source.ssn, '0'))" -%}
{%- set redo_record = "upper(regexp_replace(coalesce(m_source.rs_id, ''), '0x|[^0-9A-Fa-f]', ''))" -%}
case
    -- Transactions come in the order of their commits, so the last commit before the change goes first. A new connector
    -- knows none.
    when m_source.sequence rlike '^\\[(null|"[0-9]{1,20}"), *"[0-9]{1,20}"\\]$' then concat(
        lpad(regexp_extract(m_source.sequence, '^\\[(?:null, *)?"([0-9]+)', 1), 20, '0'),
        -- Connectors from 1.5.0 to 1.6.1 repeat the first change of a transaction in `sequence`.
        lpad(
            if(
                m_source.lsn rlike '^[0-9]{1,20}$', m_source.lsn, regexp_extract(m_source.sequence, '([0-9]+)"\\]$', 1)
            ),
            20, '0'
        )
    )
    when {{ binlog }} rlike '[.][0-9]{1,10},[0-9]{1,20},[0-9]{1,10}$'
        then concat(
            lpad(regexp_extract(m_source.file, '([0-9]+)$', 1), 10, '0'), lpad(m_source.pos, 20, '0'),
            lpad(coalesce(m_source.row, '0'), 10, '0')
        )
    when {{ lsn }} rlike '^[0-9A-Fa-f:]{22},[0-9A-Fa-f:]{22},[0-9]{1,10}$'
        then concat(
            upper(replace(concat(m_source.commit_lsn, m_source.change_lsn), ':', '')),
            lpad(coalesce(m_source.event_serial_no, '0'), 10, '0')
        )
    when {{ scn }} rlike '^[0-9]{1,20},[0-9]{1,20},[0-9]{1,10}$' and {{ redo_record }} <> ''
        then concat(
            lpad(m_source.commit_scn, 20, '0'), lpad(m_source.scn, 20, '0'), lpad({{ redo_record }}, 24, '0'),
            lpad(coalesce(m_source.ssn, '0'), 10, '0')
        )
    -- XStream has no redo record. Its position rises with each change.
    when m_source.commit_scn rlike '^[0-9]{1,20}$' and m_source.lcr_position rlike '^[0-9A-Fa-f]+$'
        then concat(lpad(m_source.commit_scn, 20, '0'), upper(m_source.lcr_position))
end
{%- endmacro -%}


{#- A text that is equal for messages that must be read together: those with one place in the log, which includes the
    copies of a change, or all loads of a key. `m` is that of _debezium_message_steps; the last two are MD5s. -#}
{%- macro _debezium_group(value, key, position, has_position, keys, reload) -%}
case
    when m.op is null or m.op = 'm' then concat('rejected-', md5(coalesce({{ value }}, {{ key }}, '')))
    when m.kind = 'load' then concat('load-', {{ keys }})
    {%- if has_position %}
    when m.kind = 'reload' and m.log_place is not null then concat('load-', {{ reload }})
    {%- endif %}
    when m.log_place is not null then {{ afterimage._debezium_place_in_log() }}
    else concat('rejected-', coalesce({{ position }}, md5({{ value }})))
end
{%- endmacro -%}


{#- What a rejected load says (`load`), or a row of an incremental snapshot (`reload`), as an MD5; without a kind that
    of the message's own. -#}
{%- macro _debezium_load_hash(kind=none) -%}
    {%- set hashes = {
        'load': 'md5(to_json(struct(array_sort(map_entries(m.row)) as row_entries, m.source)))',
        'reload': 'md5(to_json(struct(m.row, m.source)))',
    } -%}
    {{ return(
        hashes[kind] if kind is not none
        else "case m.kind when 'load' then " ~ hashes.load ~ " when 'reload' then " ~ hashes.reload ~ ' end'
    ) }}
{%- endmacro -%}


{#- The group of a row that an earlier run wrote, as its change_id begins with it. That of an incremental snapshot's row
    is in its place, unless `position` gives the place. -#}
{%- macro _debezium_known_group(has_position) -%}
case
    when known.change_id rlike '^rejected-' then left(known.change_id, 41)
    {%- if not has_position %}
    when known.change_id rlike '^load-' and known.change_seq rlike '[.]i'
        then concat(substring_index(known.change_seq, '.i', 1), '.i')
    {%- endif %}
    when known.change_id rlike '^load-' then left(known.change_id, 37)
    when known.change_id rlike '(?s)^[0-9A-Z]+-([a-zA-Z]|.*-[0-9a-f]{32})' then substring_index(known.change_id, '-', 1)
    else concat('rejected-', known.change_id)
end
{%- endmacro -%}


{#- A query for the ids of rejected changes that have another id now; none if there may be none. A message that waited
    for its schema says what it is, a load that fits has the id of its key, and a half of a key change that fits is in
    the whole. (A copy in other words may still not fit. As one array they are planned by themselves; a condition on what
    was classified would have Spark write all that leads to it into each of its parts.) -#}
{%- macro _debezium_replaced(intake, landing, names) -%}
    {%- set replaced = [] -%}
    {%- if landing.opened -%}
        {%- do replaced.append("select concat('rejected-', md5(hex(" ~ landing.bytes ~ "))) from "
            ~ intake.sides[0].rows ~ ' where afterimage_read_error is null') -%}
        {#- A message in a frame, from before there were `schemas`. -#}
        {%- do replaced.append("select concat('rejected-', md5(" ~ landing.text ~ ")) from " ~ intake.sides[0].rows
            ~ ' where afterimage_value_id is not null or (' ~ landing.bytes ~ ' is null and afterimage_key_id is not null)') -%}
    {%- endif -%}
    {%- if afterimage._debezium_has_rejected('^load-.*-r') -%}
        {#- Of a usual message `m` has no row. -#}
        {%- do replaced.append("select explode(collect_set(if(m.kind = 'load' and reject_reason is null, "
            ~ "concat(change_group, '-r', " ~ afterimage._debezium_of_message(
                afterimage._exact_numbers(afterimage._valid_text('value'), names), afterimage._debezium_load_hash('load')
            ) ~ '), null))) from classified') -%}
    {%- endif -%}
    {%- if landing.has_headers and afterimage._debezium_has_rejected('-[cdu]-[0-9a-f]{32}$') -%}
        {%- do replaced.append('select explode(collect_set(own_id)) from (select if(is_moved, '
            ~ afterimage._debezium_identity_alone() ~ ', identity) as own_id from classified'
            ~ ' group by 1 having bool_and(is_moved))') -%}
    {%- endif -%}
    {{ return(replaced | join(' union all ') or none) }}
{%- endmacro -%}


{#- Whether earlier runs have rejected changes with such an id. -#}
{%- macro _debezium_has_rejected(pattern) -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set query -%}
        select count(*) from {{ this }}
        where
            reject_reason is not null
            and (change_id rlike {{ afterimage._literal(pattern) }} or startswith(change_id, 'erased-'))
    {%- endset -%}
    {{ return(afterimage._value(query) > 0) }}
{%- endmacro -%}
