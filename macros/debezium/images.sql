{#- The CTEs from the landing to `images`: what each message says, and the row before and after its change. Each step
    that Spark does not compile copies the row. So of many messages all that unusual ones need is one expression. -#}
{%- macro _debezium_images(side, landing, layout) -%}
{%- set usual = layout.usual -%}
{%- set steps = afterimage._debezium_row_steps(layout) -%}
{%- set none_of = 'cast(array() as array<string>)' -%}
{#- What is known of each message, and where a usual one has it. -#}
{%- set known = {
    'm': 'usual.m', 'image': 'usual.image', 'row_before': 'usual.before', 'key_hash': 'usual_key_hash',
    'source_text': 'usual_source_text', 'load_hash': 'cast(null as string)',
    'is_postgresql': "usual.m.source.lsn is not null or coalesce(startswith(usual.m.source.sequence, '['), false)",
    'is_tombstone': 'false', 'is_key_made_up': 'false', 'misfits': none_of, 'no_numbers': none_of, 'bounded': none_of,
    'doubtful_nulls': none_of, 'unknown_columns': none_of, 'undeclared': none_of,
} -%}
{#- A step within another takes Spark six rounds to analyse. What no step uses stands at the end, side by side. -#}
{%- set inner, fields = [], [] -%}
{%- for name, step in steps + [['load_hash', afterimage._debezium_load_hash()]] -%}
    {%- set is_used = name not in known or name in ['m', 'image', 'is_postgresql'] -%}
    {%- do inner.append([name, step]) if is_used -%}
    {%- do fields.append(afterimage._literal(name) ~ ', ' ~ (name if is_used else step)) if name in known -%}
{%- endfor -%}
landed_messages as (

    select
        {{ 'cast(' ~ landing.bytes ~ ' as string)' if usual else landing.value }} as {{ 'landed_' if usual }}value,
        {{ landing.key }} as message_key,
        {{ landing.key_row }} as key_row,
        {{ landing.was_avro }} as was_avro,
        {{ landing.unread }} as unread,
        {{ landing.position }} as landed_position,
        {{ landing.partition }} as landed_partition,
        {{ landing.headers }} as headers

    from {{ side.rows }}
    where {{ side.condition or 'true' }}

),

{% if usual -%}
usual_messages as (

    select
        *,
        {%- for name, step in usual %}
        {{ step | indent(8) }} as {{ name }},
        {%- endfor %}
        if(usual is null, {{ afterimage._valid_text('landed_value') }}, landed_value) as value

    from landed_messages

),

messages as (

    select
        *,
        if(usual is null, null, md5(to_json(usual.keys))) as usual_key_hash,
        if(usual.m.kind = 'load' or usual.m.log_place is null, to_json(usual.m.source), null) as usual_source_text,
        if(usual is not null, null, {{ afterimage._let_all(
            inner, 'named_struct(' ~ fields | join(', ') ~ ')'
        ) | indent(8) }}) as unusual

    from usual_messages

),

images as (

    select
        value,
        message_key,
        unread,
        landed_position,
        landed_partition,
        headers
        {%- for name, of_usual in known.items() %},
        if(usual is null, unusual.{{ name }}, {{ of_usual }}) as {{ name }}
        {%- endfor %}

    from messages

)
{%- else -%}
images as (

    select
        *
        {%- for name, step in steps %},
        {{ step | indent(8) }} as {{ name }}
        {%- endfor %}

    from landed_messages

)
{%- endif -%}
{%- endmacro -%}


{#- What a message says of its row: names and expressions over `value`, each of which may use the names before it. -#}
{%- macro _debezium_row_steps(layout) -%}
{%- set columns = layout.columns -%}
{%- set none_of = 'cast(array() as array<string>)' -%}
{%- set known = 'map_filter(<values>, (k, v) -> coalesce(' ~ afterimage._debezium_is_value(columns, layout.placeholder)
    ~ ', <null is known>))' -%}
{#- Few rows have a placeholder, and functions with lambdas are slow. -#}
{%- set known_or_null = 'if(coalesce(arrays_overlap(map_values(<values>), array(' ~ layout.placeholders ~ ')), false), '
    ~ known | replace('<null is known>', 'true') ~ ', <values>)' -%}
{#- NULL is a value, except of an update in the columns of null_is_absent. -#}
{%- set null_is_known = 'not (array_contains(' ~ afterimage._string_array(layout.sparse) ~ ', k) and '
    ~ afterimage._debezium_may_lack() ~ ')' if layout.sparse else 'true' -%}
{#- NaN and infinity of a decimal are NULL, as the connector itself writes them unless its decimals are texts or
    doubles. -#}
{%- set no_number = afterimage._literal(
    '^[^"]* "(NaN|NAN|-?Infinity|(POSITIVE|NEGATIVE)_INFINITY)" [(]decimal[^"]*$'
) -%}
{%- set bounded = [] -%}
{%- for column in columns if layout.infinity is none and column.type in ['date', 'timestamp', 'timestamp_ntz'] -%}
    {%- do bounded.append([
        'row_texts[' ~ columns.index(column) ~ '] in (' ~ afterimage._debezium_bounds(column) | join(', ') ~ ')',
        afterimage._literal(column.name)
    ]) -%}
{%- endfor -%}
{%- set keys = afterimage._string_array(layout.unique_key) -%}
{%- set others = afterimage._string_array(columns | map(attribute='name') | reject('in', layout.unique_key) | list) -%}
{%- set made_up = afterimage._literal(
    '^(|0([.]0+)?|false|\\[\\]|\\{\\}|AA==|\\{"scale":0,"value":"AA=="\\}'
    ~ '|1970-01-01([T ]00:00:00([.]0+)?)?Z?|00:00:00([.]0+)?Z|P0Y0M0DT0H0M0S'
    ~ '|\\{("x":"?0([.]0)?"?,"y":"?0([.]0)?"?,)?"wkb":"(AQcAAAAAAAAA|AQEA{25})",.*\\})$'
) -%}
{%- set key_before, key_after, key_made_up, key_unsure, key_same = [], [], [], [], [] -%}
{%- for name in layout.unique_key -%}
    {%- set name = '[' ~ afterimage._literal(name) ~ ']' -%}
    {%- set is_real = 'coalesce(not known_before' ~ name ~ ' rlike ' ~ made_up ~ ', false)' -%}
    {%- set is_same = 'coalesce(known_before' ~ name ~ ' = m.row' ~ name ~ ', false)' -%}
    {%- do key_before.append('(' ~ is_real ~ ' or ' ~ is_same ~ ')') -%}
    {%- do key_after.append(is_real ~ ' and not ' ~ is_same) -%}
    {%- set is_made_up = 'coalesce(known_before' ~ name ~ ' rlike ' ~ made_up ~ ', false)' -%}
    {%- do key_made_up.append(is_made_up) -%}
    {%- do key_unsure.append('(' ~ is_made_up ~ ' and not known_before' ~ name ~ ' <=> key_values' ~ name ~ ')') -%}
    {%- do key_same.append('key_values' ~ name ~ ' <=> m.row' ~ name) -%}
{%- endfor -%}
{#- The identity is that of the message's key, or FULL, if something else is real or a column of that key is. -#}
{%- set is_identity_made_up = afterimage._let(
    'key_values', afterimage._debezium_payload('key_row'),
    'if(key_values is null, ' ~ key_made_up | join(' and ') ~ ', ' ~ key_unsure | join(' or ') ~ ')'
    ~ " and exists(map_entries(known_before), e -> not startswith(e.key, '__') and not coalesce(e.value rlike " ~ made_up
    ~ ', true) and coalesce(not array_contains(' ~ keys ~ ', e.key) or map_contains_key(key_values, e.key), false))'
) -%}
{#- An update does not change the message's key, and with REPLICA IDENTITY FULL it lacks no value. -#}
{%- set known_row = known | replace('<null is known>', 'true') | replace('<values>', 'm.row') -%}
{%- set has_key_alone = 'size(' ~ known_row ~ ') < size(m.row) or '
    ~ afterimage._let('key_values', afterimage._debezium_payload('key_row'), key_same | join(' and ')) -%}
{%- set tombstone = afterimage._literal(
    '^\\s*(null|[{]\\s*("schema".*"payload"\\s*:\\s*null|"payload"\\s*:\\s*null\\s*,\\s*"schema".*)\\s*[}])\\s*$'
) -%}
{#- Its connector alone says of a row before a change no more than REPLICA IDENTITY has. A flattened row that does not
    have its place in the log may be PostgreSQL's. -#}
{%- set is_postgresql -%}
m.source.lsn is not null
or coalesce(startswith(m.source.sequence, '['), false)
or (not m.is_envelope and m.op is not null and m.log_place is null)
{%- endset -%}
{#- PostgreSQL sends only the key of the row before a change, with NULL in the other columns, or where they are NOT NULL
    a value that the connector makes up; unless REPLICA IDENTITY is FULL. -#}
{%- set knows_row_before -%}
coalesce(not is_postgresql or exists(
    map_entries(known_before), e -> array_contains({{ others }}, e.key) and not coalesce(e.value rlike {{ made_up }}, true)
), false)
{%- endset -%}
{%- set identity_before -%}
if(knows_row_before, known_before, map_filter(known_before, (k, v) -> array_contains({{ keys }}, k)))
{%- endset -%}
{#- PostgreSQL's REPLICA IDENTITY may be an index on other columns, so that the key before is made up. -#}
{%- set has_before -%}
before_values is not null
and knows_row_before
and (not is_postgresql or {{ key_before | join(' and ') }} or not coalesce({{ has_key_alone }}, false))
{%- endset -%}
{%- set row_values -%}
case
    when m.op = 'd' then coalesce({{ identity_before }}, {{ afterimage._debezium_payload('key_row') }})
    else {{ (known | replace('<null is known>', null_is_known) if layout.sparse else known_or_null) | replace('<values>', 'm.row') }}
end
{%- endset -%}
{#- An update changes a key that is not the table's own, so that no delete and insert tell of it. What the connector
    makes up may be a value, if it is still there. -#}
{%- set row_before -%}
if(
    has_before or m.op = 'u' and {{ key_before | join(' and ') }} and ({{ key_after | join(' or ') }}),
    known_row_before,
    null
)
{%- endset -%}
{#- PostgreSQL shows its REPLICA IDENTITY alone, and makes the key up where that is the table's own and `unique_key` is
    another. -#}
{%- set is_key_made_up -%}
m.op = 'd' and is_postgresql and ({{ key_made_up | join(' or ') }}) and {{ is_identity_made_up }}
{%- endset -%}
{%- set misfits -%}
concat(
    {{ afterimage._misfits(columns, 'row_texts', 'image', '') }},
    {{ afterimage._misfits(columns, 'before_texts', 'known_row_before', ' before') }}
)
{%- endset -%}
{%- set undeclared = 'filter(array_except(map_keys(m.row), ' ~ layout.names
    ~ "), k -> m.is_envelope or not startswith(k, '__'))" -%}
{%- set counted_row = afterimage._debezium_counted(columns, 'row') -%}
{%- set counted_before = afterimage._debezium_counted(columns, 'before') -%}
{{ return(
    afterimage._debezium_message_steps(
        'if(was_avro, value, ' ~ afterimage._exact_numbers('value', columns | map(attribute='name') | list) ~ ')'
    ) + [
        ['is_postgresql', is_postgresql],
        ['scales', afterimage._debezium_scales(columns)],
        ['landed_before', 'if(m.op = \'d\' and not m.is_envelope, m.row, m.before)'],
        ['known_before', known_or_null | replace('<values>', 'landed_before')],
        ['knows_row_before', knows_row_before],
        ['before_values', "if(m.op = 'u', " ~ identity_before ~ ', null)'],
        ['has_before', has_before],
        ['row_values', row_values],
    ] + afterimage._debezium_text_steps(layout, 'row') + afterimage._debezium_text_steps(layout, 'before') + [
        ['image', 'if(m.op is not null and row_values is not null, '
            ~ afterimage._image_of_texts(columns, 'row_texts', known=counted_row) ~ ', null)'],
        ['known_row_before', 'if(before_values is null, null, '
            ~ afterimage._image_of_texts(columns, 'before_texts', known=counted_before) ~ ')'],
        ['row_before', row_before],
        ['all_misfits', misfits],
        ['misfits', 'if(size(all_misfits) = 0, all_misfits, filter(all_misfits, misfit -> not misfit rlike ' ~ no_number ~ '))'],
        ['no_numbers', 'if(size(all_misfits) = 0, all_misfits, filter(all_misfits, misfit -> misfit rlike ' ~ no_number ~ '))'],
        ['bounded', afterimage._texts_where(bounded)],
        ['doubtful_nulls', afterimage._debezium_null_placeholders([] if layout.sparse is not none else columns)],
        ['unknown_columns', 'if(map_keys(row_values) <=> ' ~ layout.names ~ ', ' ~ none_of ~ ', array_except(' ~ layout.names
            ~ ', map_keys(row_values)))'],
        ['undeclared', 'if(map_keys(m.row) <=> ' ~ layout.names ~ ', ' ~ none_of ~ ', ' ~ undeclared ~ ')'],
        ['is_key_made_up', is_key_made_up],
        ['is_tombstone', 'coalesce(value rlike ' ~ tombstone ~ ', true)'],
        ['key_hash', "md5(if(m.kind = 'load', " ~ afterimage._texts_of_map('m.row', layout.unique_key) ~ ', '
            ~ afterimage._texts_of_map('row_values', layout.unique_key) ~ '))'],
        ['source_text', "if(m.kind = 'load' or m.log_place is null, to_json(m.source), null)"],
    ]
) }}
{%- endmacro -%}


{#- The row before a key change, as the partner has it. PostgreSQL's delete has the key alone, unless REPLICA IDENTITY
    is FULL, and defaults of columns that are NOT NULL, which look like any value: what the insert has too is certain. -#}
{%- macro _debezium_before_move(columns, unique_key) -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- set value = 'partner.image.' ~ afterimage._quote(column.name) -%}
        {%- do fields.append(
            afterimage._literal(column.name) ~ ', '
            ~ (value if column.name in unique_key else 'if(is_postgresql and not ' ~ value ~ ' <=> image.'
                ~ afterimage._quote(column.name) ~ ', null, ' ~ value ~ ')')
        ) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}
