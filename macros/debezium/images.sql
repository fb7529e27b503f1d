{#- The CTEs from the landing to `images`: what each message says, and the row before and after its change. -#}
{%- macro _debezium_images(side, landing, layout) -%}
{%- set columns = layout.columns -%}
{%- set texts, numbers, counts, counted_before, counted_row = [], [], [], {}, {} -%}
{%- for column in columns -%}
    {%- set text = '<values>_fields[' ~ loop.index0 ~ ']' -%}
    {%- set number = '<values>_number_' ~ loop.index -%}
    {%- if afterimage._debezium_has_bytes(column) -%}
        {%- set digits = '<values>_digits_' ~ loop.index -%}
        {%- set base64 = 'if(startswith(' ~ text ~ ", '{'), get_json_object(" ~ text ~ ", '$.value'), " ~ text ~ ')' -%}
        {%- do numbers.append(afterimage._hex_of_base64(base64) ~ ' as ' ~ digits) -%}
        {%- do numbers.append(afterimage._number_of_bytes(digits) ~ ' as ' ~ number) -%}
    {%- endif -%}
    {%- set as_text = afterimage._debezium_text(text, column, number, layout.infinity) -%}
    {%- set count = afterimage._debezium_count(text, column) -%}
    {%- if count is not none -%}
        {%- set counted = '_counts.count_' ~ loop.index -%}
        {%- do counts.append("'count_" ~ loop.index ~ "', " ~ count) -%}
        {%- do counted_row.update({column.name: 'row_values' ~ counted}) -%}
        {%- do counted_before.update({column.name: 'before_values' ~ counted}) -%}
        {%- set as_text = 'if(<values>' ~ counted ~ ' is null, ' ~ as_text ~ ', null)' -%}
    {%- endif -%}
    {%- do texts.append(as_text) -%}
{%- endfor -%}
{%- if counts -%}
    {%- do numbers.append(
        'if(<values> is null, null, named_struct(' ~ counts | join(', ') ~ ')) as <values>_counts'
    ) -%}
{%- endif -%}
{%- set texts = (
    [afterimage._texts_of_columns(columns, '<values>') ~ ' as <values>_fields'] + numbers
    + ['if(<values> is null, null, array(' ~ texts | join(', ') ~ '))']
) | join(',\n') -%}
{%- set known = 'map_filter(<values>, (k, v) -> coalesce(' ~ afterimage._debezium_is_value(columns, layout.placeholder)
    ~ ', <null is known>))' -%}
{#- Few rows have a placeholder, and functions with lambdas are slow. -#}
{%- set known_or_null = 'if(coalesce(arrays_overlap(map_values(<values>), array(' ~ layout.placeholders ~ ')), false), '
    ~ known | replace('<null is known>', 'true') ~ ', <values>)' -%}
{#- NULL is a value, except of an update in the columns of null_is_absent. -#}
{%- set null_is_known = 'not (array_contains(' ~ afterimage._string_array(layout.sparse) ~ ', k) and '
    ~ afterimage._debezium_may_lack() ~ ')' if layout.sparse else 'true' -%}
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
{%- set is_key_made_up = afterimage._let(
    'key_values', afterimage._debezium_payload('key_row'),
    'if(key_values is null, ' ~ key_made_up | join(' and ') ~ ', ' ~ key_unsure | join(' or ') ~ ')'
    ~ " and exists(map_entries(known_before), e -> not startswith(e.key, '__') and not coalesce(e.value rlike " ~ made_up
    ~ ', true) and coalesce(not array_contains(' ~ keys ~ ', e.key) or map_contains_key(key_values, e.key), false))'
) -%}
{#- An update does not change the message's key, and with REPLICA IDENTITY FULL it lacks no value. -#}
{%- set known_row = known | replace('<null is known>', 'true') | replace('<values>', 'm.row') -%}
{%- set has_key_alone = 'size(' ~ known_row ~ ') < size(m.row) or '
    ~ afterimage._let('key_values', afterimage._debezium_payload('key_row'), key_same | join(' and ')) -%}
{%- set usual = afterimage._debezium_usual_steps(layout) -%}
{%- set is_usual = 'usual is not null' if usual else 'false' -%}
landed_messages as (

    select
        {{ 'cast(' ~ landing.bytes ~ ' as string)' if usual else landing.value }} as {{ 'landed_' if usual }}value,
        {{ landing.key }} as message_key,
        {{ landing.key_row }} as key_row,
        {{ landing.unread }} as unread,
        {{ landing.position }} as landed_position,
        {{ landing.partition }} as landed_partition,
        {{ landing.headers }} as headers

    from {{ side.rows }}
    where {{ side.condition or 'true' }}

),

messages as (

    select
        *,
        {%- set exact = afterimage._exact_numbers('value', columns | map(attribute='name') | list) %}
        {%- for name, step in usual %}
        {{ step | indent(8) }} as {{ name }},
        {%- endfor %}
        {%- if usual %}
        if(usual is null, {{ afterimage._valid_text('landed_value') }}, landed_value) as value,
        {%- endif %}
        {{ is_usual }} as is_usual,
        {%- for name, step in afterimage._debezium_message_steps(
            'if(' ~ is_usual ~ ', null, ' ~ exact ~ ')', has_usual=usual | length > 0
        ) %}
        {{ step | indent(8) }} as {{ name }},
        {%- endfor %}
        -- Its connector alone says of a row before a change no more than REPLICA IDENTITY has.
        -- A flattened row that does not have its place in the log may be PostgreSQL's.
        m.source.lsn is not null
        or coalesce(startswith(m.source.sequence, '['), false)
        or (not m.is_envelope and m.op is not null and m.log_place is null) as is_postgresql,
        {{ afterimage._debezium_scales(columns) | indent(8) }} as scales

    from landed_messages

),

images as (

    select
        *,
        -- The values of each row that the connector knew.
        if(m.op = 'd' and not m.is_envelope, m.row, m.before) as landed_before,
        {{ known_or_null | replace('<values>', 'landed_before') }} as known_before,
        -- PostgreSQL sends only the key of the row before a change, with NULL in the other columns, or where they are
        -- NOT NULL a value that the connector makes up; unless REPLICA IDENTITY is FULL.
        coalesce(not is_postgresql or exists(
            map_entries(known_before), e -> array_contains({{ others }}, e.key) and not coalesce(e.value rlike {{ made_up }}, true)
        ), false) as knows_row_before,
        -- An update changes a key that is not the table's own, so that no delete and insert tell of it. What the
        -- connector makes up may be a value, if it is still there.
        m.op = 'u' and {{ key_before | join(' and ') }} and ({{ key_after | join(' or ') }}) as has_other_key,
        if(
            m.op = 'u',
            if(knows_row_before, known_before, map_filter(known_before, (k, v) -> array_contains({{ keys }}, k))),
            null
        ) as before_values,
        before_values is not null
        and knows_row_before
        -- PostgreSQL's REPLICA IDENTITY may be an index on other columns, so that the key before is made up.
        and (not is_postgresql or {{ key_before | join(' and ') }} or not coalesce({{ has_key_alone }}, false)) as has_before,
        -- So it is where the identity is the table's own key, and `unique_key` is another.
        m.op = 'd' and is_postgresql and ({{ key_made_up | join(' or ') }}) and {{ is_key_made_up }} as is_key_made_up,
        case
            when is_usual then null
            when m.op = 'd' then coalesce(
                if(knows_row_before, known_before, map_filter(known_before, (k, v) -> array_contains({{ keys }}, k))),
                {{ afterimage._debezium_payload('key_row') | indent(16) }}
            )
            else {{ (known | replace('<null is known>', null_is_known) if layout.sparse else known_or_null) | replace('<values>', 'm.row') }}
        end as row_values,
        {{ texts | replace('<values>', 'row_values') }} as row_texts,
        {{ texts | replace('<values>', 'before_values') }} as before_texts,
        case
            {%- if usual %}
            when is_usual then usual.`row`
            {%- endif %}
            when m.op is not null and row_values is not null
                then {{ afterimage._image_of_texts(columns, 'row_texts', known=counted_row) | indent(16) }}
        end as image,
        if(
            before_values is null,
            null,
            {{ afterimage._image_of_texts(columns, 'before_texts', known=counted_before) | indent(12) }}
        ) as known_row_before,
        case
            {%- if usual %}
            when is_usual then usual.before
            {%- endif %}
            when has_before or has_other_key then known_row_before
        end as row_before,
        concat(
            {{ afterimage._misfits(columns, 'row_texts', 'image', '') | indent(12) }},
            {{ afterimage._misfits(columns, 'before_texts', 'known_row_before', ' before') | indent(12) }}
        ) as all_misfits,
        -- NaN and infinity of a decimal are NULL, as the connector itself writes them unless its decimals are texts or
        -- doubles.
        if(size(all_misfits) = 0, all_misfits, filter(all_misfits, misfit -> not misfit rlike {{ no_number }})) as misfits,
        if(size(all_misfits) = 0, all_misfits, filter(all_misfits, misfit -> misfit rlike {{ no_number }})) as no_numbers,
        {{ afterimage._texts_where(bounded) }} as bounded,
        {{ afterimage._debezium_null_placeholders([] if layout.sparse is not none else columns) | indent(8) }} as doubtful_nulls,
        if(
            is_usual or map_keys(row_values) <=> {{ layout.names }},
            cast(array() as array<string>),
            array_except({{ layout.names }}, map_keys(row_values))
        ) as unknown_columns,
        if(
            is_usual or map_keys(m.row) <=> {{ layout.names }},
            cast(array() as array<string>),
            filter(array_except(map_keys(m.row), {{ layout.names }}), k -> m.is_envelope or not startswith(k, '__'))
        ) as undeclared

    from messages

)
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
