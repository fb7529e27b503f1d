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
    {%- do numbers.append('if(<values> is null, null, named_struct(' ~ counts | join(', ') ~ ')) as <values>_counts') -%}
{%- endif -%}
{%- set texts = (
    [afterimage._texts_of_columns(columns, '<values>') ~ ' as <values>_fields'] + numbers
    + ['if(<values> is null, null, array(' ~ texts | join(', ') ~ '))']
) | join(',\n') -%}
{%- set known = 'map_filter(<values>, (k, v) -> coalesce(v not in (' ~ layout.placeholders ~ '), <null is known>))' -%}
{#- Few rows have a placeholder, and functions with lambdas are slow. -#}
{%- set known_or_null = 'if(coalesce(arrays_overlap(map_values(<values>), array(' ~ layout.placeholders ~ ')), false), '
    ~ known | replace('<null is known>', 'true') ~ ', <values>)' -%}
{#- NULL is a value, except of an update in the columns of null_is_absent. REPLICA IDENTITY FULL shows the row before,
    and then the connector knows all of the row. -#}
{%- set null_is_known = "not (array_contains(" ~ afterimage._string_array(layout.sparse) ~ ", k) and (m.op = 'u'"
    ~ " and not has_before or m.op = 'c' and coalesce(contains(headers, '__debezium.oldkey'), false)))"
    if layout.sparse else 'true' -%}
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
    ~ '|1970-01-01([T ]00:00:00([.]0+)?)?Z?|00:00:00([.]0+)?Z|P0Y0M0DT0H0M0S)$'
) -%}
{%- set key_before, key_after = [], [] -%}
{%- for name in layout.unique_key -%}
    {%- set name = '[' ~ afterimage._literal(name) ~ ']' -%}
    {%- do key_before.append('coalesce(not known_before' ~ name ~ ' rlike ' ~ made_up ~ ', false)') -%}
    {%- do key_after.append('known_before' ~ name ~ ' <> m.row' ~ name) -%}
{%- endfor -%}
landed_messages as (

    select
        {{ landing.value }} as value,
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
        {%- for name, step in afterimage._debezium_message_steps(afterimage._exact_numbers('value')) %}
        {{ step | indent(8) }} as {{ name }},
        {%- endfor %}
        -- Its connector alone says of a row before a change no more than REPLICA IDENTITY has.
        m.source.lsn is not null or coalesce(startswith(m.source.sequence, '['), false) as is_postgresql,
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
        -- An update changes a key that is not the table's own, so that no delete and insert tell of it.
        m.op = 'u' and {{ key_before | join(' and ') }} and ({{ key_after | join(' or ') }}) as has_other_key,
        if(
            m.op = 'u',
            if(knows_row_before, known_before, map_filter(known_before, (k, v) -> array_contains({{ keys }}, k))),
            null
        ) as before_values,
        before_values is not null and knows_row_before as has_before,
        if(
            m.op = 'd',
            coalesce(
                if(knows_row_before, known_before, map_filter(known_before, (k, v) -> array_contains({{ keys }}, k))),
                {{ afterimage._debezium_payload('key_row') | indent(16) }}
            ),
            {{ (known | replace('<null is known>', null_is_known) if layout.sparse else known_or_null) | replace('<values>', 'm.row') }}
        ) as row_values,
        {{ texts | replace('<values>', 'row_values') }} as row_texts,
        {{ texts | replace('<values>', 'before_values') }} as before_texts,
        if(
            m.op is null or row_values is null,
            null,
            {{ afterimage._image_of_texts(columns, 'row_texts', known=counted_row) | indent(12) }}
        ) as image,
        if(
            before_values is null,
            null,
            {{ afterimage._image_of_texts(columns, 'before_texts', known=counted_before) | indent(12) }}
        ) as known_row_before,
        if(has_before or has_other_key, known_row_before, null) as row_before,
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
            map_keys(row_values) <=> {{ layout.names }},
            cast(array() as array<string>),
            array_except({{ layout.names }}, map_keys(row_values))
        ) as unknown_columns,
        if(
            map_keys(m.row) <=> {{ layout.names }},
            cast(array() as array<string>),
            filter(array_except(map_keys(m.row), {{ layout.names }}), k -> m.is_envelope or not startswith(k, '__'))
        ) as undeclared

    from messages

)
{%- endmacro -%}


{#- Whether the values of a column are the bytes of a number, in Base64. -#}
{%- macro _debezium_has_bytes(column) -%}
    {{ return(column.type.startswith('decimal') and column.get('encoding') != 'text') }}
{%- endmacro -%}


{#- A value as a text that casts to its column's type, although the message has a number of days or milliseconds, or
    unscaled bytes, whose `number` is known. A value of another type keeps its own text, which does not fit. -#}
{%- macro _debezium_text(text, column, number, infinity) -%}
    {%- if afterimage._debezium_has_bytes(column) -%}
        {#- `1250` and `true` may be Base64, which has quotes in the message. -#}
        {%- set is_number = text ~ " = 'Infinity' or (" ~ text ~ " rlike '^([0-9eE+]+|true)$' and value rlike "
            ~ afterimage._literal('"\\Q' ~ column.name ~ '\\E"\\s*:\\s*[^"{n\\s]') ~ ')' -%}
        {#- A decimal of any scale has its own scale, one with a schema beside it that of the schema: the column's was
            another before it was altered. -#}
        {%- set scale = column.type.split(',')[1].rstrip(')') | int -%}
        {%- set own_scale = 'if(startswith(' ~ text ~ ", '{'), get_json_object(" ~ text ~ ", '$.scale'), coalesce(scales["
            ~ afterimage._literal(column.name) ~ "], '" ~ scale ~ "'))" -%}
        {%- set decimal = 'if(' ~ own_scale ~ " = '" ~ scale ~ "', " ~ afterimage._decimal_of_number(number, scale)
            ~ ', concat(' ~ number ~ ", 'E-', " ~ own_scale ~ '))' -%}
        {{ return('if(' ~ is_number ~ ', ' ~ text ~ ', coalesce(' ~ decimal ~ ', ' ~ text ~ '))') }}
    {%- elif column.type == 'binary' and column.get('encoding') != 'hex' -%}
        {{ return(
            'coalesce(' ~ afterimage._hex_of_base64(text) ~ ", concat('not Base64: ', " ~ text ~ '))'
        ) }}
    {%- elif column.type == 'date' -%}
        {#- `2024-01-02Z` of the mode `isostring` -#}
        {{ return(afterimage._debezium_bounded(text, column, infinity, afterimage._counted_date("rtrim('Z', " ~ text ~ ')'))) }}
    {%- elif column.type.startswith('timestamp') -%}
        {{ return(
            afterimage._debezium_bounded(text, column, infinity, afterimage._counted_time(text, column.precision))
        ) }}
    {%- elif column.is_time -%}
        {{ return(afterimage._debezium_time_of_day(text, column.precision)) }}
    {%- endif -%}
    {{ return(text) }}
{%- endmacro -%}


{#- A usual number of days, milliseconds or microseconds since 1970 as its date or time; NULL for every other text. None
    for columns of other types. Bounds of PostgreSQL's infinity have more digits. -#}
{%- macro _debezium_count(text, column) -%}
    {%- if column.type == 'date' -%}
        {{ return('if(' ~ text ~ " rlike '^-?[0-9]{1,5}$', date_from_unix_date(cast(" ~ text ~ ' as int)), null)') }}
    {%- elif column.type == 'timestamp' and column.precision is not none and column.precision <= 6 -%}
        {%- set digits, unit = (13, 'millis') if column.precision <= 3 else (16, 'micros') -%}
        {{ return(
            'if(' ~ text ~ " rlike '^[0-9]{1," ~ digits ~ "}$', timestamp_" ~ unit ~ '(cast(' ~ text ~ ' as bigint)), null)'
        ) }}
    {%- endif -%}
    {{ return(none) }}
{%- endmacro -%}


{#- The text of a date or a timestamp, with a bound in place of PostgreSQL's infinity. The connector has no value for
    that: it writes what the JDBC driver does with its largest and smallest number, in the unit of the column. -#}
{%- macro _debezium_bounded(text, column, infinity, otherwise) -%}
    {%- if column.type == 'date' -%}
        {#- The first two are those of changes. The others are those of snapshots, and vary with the connector's time
            zone. -#}
        {%- set last = [
            '-2147472692', '-5877611-06-21Z', '-622191235', '-622191234', '-622191233', '+292278994-08-16Z',
            '+292278994-08-17Z', '+292278994-08-15Z'
        ] -%}
        {%- set first = [
            '-2147472691', '-5877611-06-22Z', '-625821273', '-625821272', '-625821271', '+292269055-12-01Z',
            '+292269055-12-02Z', '+292269055-12-03Z'
        ] -%}
    {%- else -%}
        {%- set last, first = ['+294247-01-10T04:00:25.2Z'], ['-290308-12-21T19:59:27.6Z'] -%}
        {%- if column.precision is not none -%}
            {%- set unit = 0 if column.precision <= 3 else 1 if column.precision <= 6 else 2 -%}
            {%- do last.append(['9223372036825200', '9223372036825200000', '9223372036854775807'][unit]) -%}
            {%- do first.append(['-9223372036832400', '-9223372036832400000', '-9223372036854775808'][unit]) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set bounds = {'null': ['null', 'null'], 'reject': ["'infinity'", "'-infinity'"]}.get(
        infinity, afterimage._debezium_bounds(column)
    ) -%}
    {{ return(
        'case when ' ~ text ~ " in ('infinity', '" ~ last | join("', '") ~ "') then " ~ bounds[0]
        ~ ' when ' ~ text ~ " in ('-infinity', '" ~ first | join("', '") ~ "') then " ~ bounds[1]
        ~ ' else ' ~ otherwise ~ ' end'
    ) }}
{%- endmacro -%}


{#- The texts that stand for `infinity` and `-infinity` in a date or a timestamp, as SQL literals. No value of a message
    has a plus before a year of four digits. Python, and so PySpark and dbt, can show these timestamps in every time
    zone; it cannot show earlier ones than the first. -#}
{%- macro _debezium_bounds(column) -%}
    {{ return(
        ["'+9999-12-31'", "'+0001-01-01'"] if column.type == 'date'
        else ["'+9999-12-31 00:00:00Z'", "'+0001-01-03 00:00:00Z'"]
    ) }}
{%- endmacro -%}


{#- A time of day as PostgreSQL shows it, `10:11:12.5`, from a number since midnight (in the unit that `_counted_time`
    takes for the precision) or from a text with a Z. MySQL's are negative or have more than 24 hours. Any other text
    stays. Texts of this form sort like their times. -#}
{%- macro _debezium_time_of_day(text, precision) -%}
    {%- set digits = 3 if precision <= 3 else 6 if precision <= 6 else 9 -%}
    {%- set seconds = 'n div 1' ~ '0' * digits ~ 'L' -%}
    {%- set fraction = "rtrim('0', lpad(cast(n % 1" ~ '0' * digits ~ "L as string), " ~ digits ~ ", '0'))" -%}
    {%- set counted -%}
concat(
    if(startswith({{ text }}, '-'), '-', ''),
    format_string('%02d:%02d:%02d', {{ seconds }} div 3600, {{ seconds }} div 60 % 60, {{ seconds }} % 60),
    if(n % 1{{ '0' * digits }}L = 0, '', concat('.', {{ fraction }}))
)
    {%- endset -%}
    {{ return(
        'if(' ~ text ~ " rlike '^-?[0-9]{1,18}$', "
        ~ afterimage._let('n', 'abs(cast(' ~ text ~ ' as bigint))', counted) ~ ", rtrim('Z', " ~ text ~ '))'
    ) }}
{%- endmacro -%}
