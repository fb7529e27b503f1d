{#- What a message says, as SQL over its text:
    - `payload`: a map of texts; NULL where the text is no JSON object. `is_envelope` unless it is a flattened row,
    - `op`, and the `kind` of change, `reload` for a row of an incremental snapshot,
    - `source`, which a flattened row has beside its columns, and its time; `log_place`: the place in the log,
    - `row` after the change, and the row `before` it. -#}
{%- macro _debezium_message(text) -%}
    {%- set fields = [] -%}
    {%- for name in [
        'snapshot', 'ts_ms', 'ts_us', 'schema', 'db', 'table', 'txId', 'gtid', 'sequence', 'lsn', 'file', 'pos', 'row', 'server_id',
        'commit_lsn', 'change_lsn', 'event_serial_no', 'commit_scn', 'scn', 'rs_id', 'ssn'
    ] -%}
        {#- `__ts_ms` and `__ts_us` are times of the connector. -#}
        {%- do fields.append("'" ~ name ~ "', coalesce(s['" ~ name ~ "'], p['__source_" ~ name ~ "']"
            ~ (", p['__" ~ name ~ "']" if not name.startswith('ts_')) ~ ')') -%}
    {%- endfor -%}
    {%- set op -%}
case
    when map_contains_key(p, 'op') and map_contains_key(p, 'source') then p['op']
    when lower(p['__deleted']) = 'true' then 'd'
    else coalesce(p['__op'], if(map_contains_key(p, '__deleted'), 'u', null))
end
    {%- endset -%}
    {%- set message -%}
named_struct(
    'payload', p,
    'is_envelope', map_contains_key(p, 'op') and map_contains_key(p, 'source'),
    'op', op,
    'kind', case
        when op in ('r', 'c') and lower(f.snapshot) = 'incremental' then 'reload'
        -- A connector that stopped in an incremental snapshot marks every change as read by a snapshot, until the
        -- snapshot goes on. Old connectors for MySQL read rows as `c`, and named no server then.
        when op = 'r' or (op = 'c' and lower(f.snapshot) <> 'false' and f.server_id = '0') then 'load'
        else coalesce(decode(op, 'c', 'insert', 'u', 'update', 'd', 'delete', 't', 'truncate'), 'unknown')
    end,
    'source', f,
    'source_time', coalesce(
        {{ afterimage._landed_count('f.ts_us', 'micros') }}, {{ afterimage._landed_count('f.ts_ms', 'millis') }}
    ),
    'log_place', {{ afterimage._debezium_place() | indent(4) }},
    'row', if(map_contains_key(p, 'op') and map_contains_key(p, 'source'), {{ afterimage._json_map("p['after']") }}, p),
    'before', {{ afterimage._json_map("p['before']") }}
)
    {%- endset -%}
    {%- set message = afterimage._let('f', 'named_struct(' ~ fields | join(', ') ~ ')', message) -%}
    {%- set message = afterimage._let('op', op, message) -%}
    {%- set message = afterimage._let('s', afterimage._json_map("p['source']"), message) -%}
    {{ return(afterimage._let('p', afterimage._debezium_payload(text), message)) }}
{%- endmacro -%}


{#- The payload of a message or of its key, which may have a schema beside it. -#}
{%- macro _debezium_payload(text) -%}
    {%- set is_wrapped = "size(w) = 2 and map_contains_key(w, 'schema') and map_contains_key(w, 'payload')" -%}
    {{ return(afterimage._let(
        'w', afterimage._json_map(text), 'if(' ~ is_wrapped ~ ', ' ~ afterimage._json_map("w['payload']") ~ ', w)'
    )) }}
{%- endmacro -%}


{#- The place of a change in the log of its database, from the fields of `source`; NULL if they do not give all of
    it. -#}
{%- macro _debezium_place() -%}
{%- set binlog = "concat_ws(',', f.file, f.pos, coalesce(f.row, '0'))" -%}
{%- set lsn = "concat_ws(',', f.commit_lsn, f.change_lsn, coalesce(f.event_serial_no, '0'))" -%}
{%- set scn = "concat_ws(',', f.commit_scn, f.scn, coalesce(f.ssn, '0'))" -%}
{%- set redo_record = "upper(regexp_replace(coalesce(f.rs_id, ''), '0x|[^0-9A-Fa-f]', ''))" -%}
case
    -- Transactions come in the order of their commits, so the last commit before the change goes first. A new connector
    -- knows none.
    when f.sequence rlike '^\\[(null|"[0-9]{1,20}"), *"[0-9]{1,20}"\\]$' then concat(
        lpad(regexp_extract(f.sequence, '^\\[(?:null, *)?"([0-9]+)', 1), 20, '0'),
        -- Connectors from 1.5.0 to 1.6.1 repeat the first change of a transaction in `sequence`.
        lpad(if(f.lsn rlike '^[0-9]{1,20}$', f.lsn, regexp_extract(f.sequence, '([0-9]+)"\\]$', 1)), 20, '0')
    )
    when {{ binlog }} rlike '[.][0-9]{1,10},[0-9]{1,20},[0-9]{1,10}$'
        then concat(
            lpad(regexp_extract(f.file, '([0-9]+)$', 1), 10, '0'), lpad(f.pos, 20, '0'), lpad(coalesce(f.row, '0'), 10, '0')
        )
    when {{ lsn }} rlike '^[0-9A-Fa-f:]{22},[0-9A-Fa-f:]{22},[0-9]{1,10}$'
        then concat(upper(replace(concat(f.commit_lsn, f.change_lsn), ':', '')), lpad(coalesce(f.event_serial_no, '0'), 10, '0'))
    when {{ scn }} rlike '^[0-9]{1,20},[0-9]{1,20},[0-9]{1,10}$'
        then concat(
            lpad(f.commit_scn, 20, '0'), lpad(f.scn, 20, '0'), lpad({{ redo_record }}, 24, '0'),
            lpad(coalesce(f.ssn, '0'), 10, '0')
        )
end
{%- endmacro -%}


{#- A text that is equal for messages that must be read together: those with one place in the log, which includes the
    copies of a change, or all loads of a key. `m` is the message as _debezium_message reads it. -#}
{%- macro _debezium_group(value, key, position, keys) -%}
case
    when m.op is null or m.op = 'm' then concat('no-row-', md5(coalesce({{ value }}, {{ key }}, '')))
    when m.kind = 'load' then concat('load-', md5({{ afterimage._texts_of_map('m.row', keys) }}))
    when m.log_place is not null then concat(m.log_place, if(m.kind = 'reload', '.i', ''))
    else concat('unplaced-', coalesce({{ position }}, md5({{ value }})))
end
{%- endmacro -%}


{#- The scales of the decimals in a message, by their columns, where it has its schema. -#}
{%- macro _debezium_scales(columns) -%}
    {%- set decimals = [] -%}
    {%- for column in columns if column.type.startswith('decimal') and column.get('encoding') != 'text' -%}
        {%- do decimals.append(column) -%}
    {%- endfor -%}
    {%- if not decimals -%}
        {{ return('cast(null as map<string, string>)') }}
    {%- endif -%}
    {%- set field = 'field: string, parameters: map<string, string>' -%}
    {%- set fields = "from_json(get_json_object(value, '$.schema.fields'), 'array<struct<" ~ field
        ~ ', fields: array<struct<' ~ field ~ ">>>>')" -%}
    {%- set scales -%}
map_from_entries(transform(
    filter(
        coalesce(get(filter(s, f -> f.field = 'after'), 0).fields, transform(s, f -> struct(f.field, f.parameters))),
        f -> f.parameters['scale'] is not null
    ),
    f -> struct(f.field, f.parameters['scale'])
))
    {%- endset -%}
    {{ return(
        "if(startswith(value, '{\"schema\"'), " ~ afterimage._let('s', fields, scales) ~ ', null)'
    ) }}
{%- endmacro -%}
