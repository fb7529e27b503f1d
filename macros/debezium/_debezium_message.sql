{#- What a message says, as SQL over its text:
    - `payload`: a map of texts; NULL where the text is no JSON object. `is_envelope` unless it is a flattened row,
    - `op`, and the `kind` of change, `reload` for a row of an incremental snapshot,
    - `source`, which a flattened row has beside its columns, and its time; `log_place`: the place in the log,
    - `row` after the change, and the row `before` it. -#}
{%- macro _debezium_message(text) -%}
    {%- set fields = [] -%}
    {%- for name in [
        'snapshot', 'ts_ms', 'ts_us', 'schema', 'db', 'table', 'txId', 'gtid', 'sequence', 'lsn', 'file', 'pos', 'row',
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
        -- Old connectors for MySQL read rows as `c`. PostgreSQL's reads them as `r`; but if it stopped in an incremental
        -- snapshot, it says of all changes that a snapshot read them, until it goes on with that.
        when op = 'r' or (op = 'c' and lower(f.snapshot) <> 'false' and f.sequence is null) then 'load'
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
