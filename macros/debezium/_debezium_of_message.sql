{#- SQL over `m`, what a landed message says, as SQL over its landed text: `payload`, which is a map of texts (NULL where
    the text is no JSON), `op`, `source`, `row` (after the change) and `before`. Flattened rows have the fields of
    `source` beside those of the row. -#}
{%- macro _debezium_of_message(text, body='m') -%}
    {%- set fields = [] -%}
    {%- for name in [
        'snapshot', 'ts_ms', 'schema', 'db', 'table', 'txId', 'gtid', 'sequence', 'lsn', 'file', 'pos', 'row', 'commit_lsn',
        'change_lsn', 'event_serial_no', 'commit_scn', 'scn', 'rs_id', 'ssn'
    ] -%}
        {#- `__ts_ms` is the time of the connector. -#}
        {%- do fields.append("'" ~ name ~ "', coalesce(s['" ~ name ~ "'], p['__source_" ~ name ~ "']"
            ~ (", p['__" ~ name ~ "']" if name != 'ts_ms') ~ ')') -%}
    {%- endfor -%}
    {%- set is_envelope = "(map_contains_key(p, 'op') and map_contains_key(p, 'source'))" -%}
    {%- set message -%}
named_struct(
    'payload', p,
    'is_envelope', {{ is_envelope }},
    'op', case
        when {{ is_envelope }} then p['op']
        when lower(p['__deleted']) = 'true' then 'd'
        else coalesce(p['__op'], if(map_contains_key(p, '__deleted'), 'u', null))
    end,
    'source', named_struct({{ fields | join(', ') }}),
    'row', if({{ is_envelope }}, {{ afterimage._json_map("p['after']") }}, p),
    'before', if({{ is_envelope }}, {{ afterimage._json_map("p['before']") }}, null)
)
    {%- endset -%}
    {%- set message = afterimage._let('s', afterimage._json_map("p['source']"), message) -%}
    {%- set message = afterimage._let('p', afterimage._debezium_payload(text), message) -%}
    {{ return(message if body == 'm' else afterimage._let('m', message, body)) }}
{%- endmacro -%}
