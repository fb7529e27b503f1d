{#- Values as connectors write them: numbers of days and milliseconds, bytes in Base64, PostgreSQL's infinity. -#}


{#- Whether the values of a column are the bytes of a number, in Base64. -#}
{%- macro _debezium_has_bytes(column) -%}
    {{ return(column.type.startswith('decimal') and column.get('encoding') != 'text') }}
{%- endmacro -%}


{#- The scales of the decimals in a message, by their columns, where it has its schema. -#}
{%- macro _debezium_scales(columns) -%}
    {%- set decimals = [] -%}
    {%- for column in columns if afterimage._debezium_has_bytes(column) -%}
        {%- do decimals.append(column) -%}
    {%- endfor -%}
    {%- if not decimals -%}
        {{ return('cast(null as map<string, string>)') }}
    {%- endif -%}
    {%- set field = 'field: string, parameters: map<string, string>' -%}
    {%- set fields = "from_json(get_json_object(value, '$.schema.fields'), 'array<struct<" ~ field
        ~ ', fields: array<struct<' ~ field ~ ">>>>')" -%}
    {%- set scaled -%}
filter(
    coalesce(get(filter(s, f -> f.field = 'after'), 0).fields, transform(s, f -> struct(f.field, f.parameters))),
    f -> f.field is not null and f.parameters['scale'] is not null
)
    {%- endset -%}
    {#- Any JSON may land. A map has no name twice, so the first field of a name counts. -#}
    {%- set scales -%}
map_from_entries(transform(
    filter(scaled, (f, i) -> array_position(scaled.field, f.field) = i + 1),
    f -> struct(f.field, f.parameters['scale'])
))
    {%- endset -%}
    {{ return(
        "if(startswith(value, '{\"schema\"') or map_contains_key(m_texts, 'schema') and map_contains_key(m_texts, 'payload'), "
        ~ afterimage._let('s', fields, afterimage._let('scaled', scaled, scales)) ~ ', null)'
    ) }}
{%- endmacro -%}


{#- A value as a text that casts to its column's type, although the message has a number of days or milliseconds, or
    unscaled bytes, whose `number` is known. A value of another type keeps its own text, which does not fit. -#}
{%- macro _debezium_text(text, column, number, infinity) -%}
    {%- if afterimage._debezium_has_bytes(column) -%}
        {#- `1250` and `true` may be Base64, which has quotes in the message, or in its key. Other fields of the message
            may have the column's name. -#}
        {%- set form = '([0-9eE+]+|true)' -%}
        {%- set is_number = text ~ " = 'Infinity' or (" ~ text ~ " rlike '^" ~ form
            ~ "$' and not array_contains(regexp_extract_all(concat_ws(' ', value, key_row), "
            ~ afterimage._literal('"\\Q' ~ column.name ~ '\\E"\\s*:\\s*"' ~ form ~ '"') ~ ', 1), ' ~ text ~ '))' -%}
        {#- A decimal of any scale has its own scale, one with a schema beside it that of the schema: the column's was
            another before it was altered. -#}
        {%- set scale = column.type.split(',')[1].rstrip(')') | int -%}
        {%- set own_scale = 'if(startswith(' ~ text ~ ", '{'), get_json_object(" ~ text ~ ", '$.scale'), coalesce(scales["
            ~ afterimage._literal(column.name) ~ "], '" ~ scale ~ "'))" -%}
        {%- set decimal = 'if(' ~ own_scale ~ " = '" ~ scale ~ "', " ~ afterimage._decimal_of_number(number, scale)
            ~ ', replace(concat(' ~ number ~ ", 'E-', " ~ own_scale ~ "), 'E--', 'E'))" -%}
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
    {%- elif column.type == 'string' and column.get('encoding') == 'json' -%}
        {{ return(afterimage._debezium_compact(text)) }}
    {%- endif -%}
    {{ return(text) }}
{%- endmacro -%}


{%- macro _check_json_is_text(macro_name, column) -%}
    {%- if column.get('encoding') == 'json' and column.type != 'string' -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": a column with the encoding json must be a string. Got: " ~ column.name ~ ', ' ~ column.type
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- JSON without blanks outside its texts. MySQL's connector has them in rows of a snapshot alone. -#}
{%- macro _debezium_compact(text) -%}
    {%- set texts_and_blanks = afterimage._literal('("[^"\\\\]*+(?:\\\\.[^"\\\\]*+)*+")| ++') -%}
    {{ return('regexp_replace(' ~ text ~ ', ' ~ texts_and_blanks ~ ", '$1')") }}
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


{#- Steps from `row_values` or `before_values`, a map of texts, to `row_texts` or `before_texts`, those that cast to the
    columns' types. `…_counts` has the values that need no text. -#}
{%- macro _debezium_text_steps(layout, row) -%}
    {%- set values, texts, digits, numbers, counts = row ~ '_values', [], [], [], [] -%}
    {%- for column in layout.columns -%}
        {%- set text, name = row ~ '_fields[' ~ loop.index0 ~ ']', 'c' ~ loop.index -%}
        {%- if afterimage._debezium_has_bytes(column) -%}
            {%- set number = 'get_json_object(' ~ text ~ ", '$.value')" -%}
            {%- set base64 = 'if(startswith(' ~ text ~ ", '{'), " ~ number ~ ', ' ~ text ~ ')' -%}
            {%- do digits.append("'" ~ name ~ "', " ~ afterimage._hex_of_base64(base64)) -%}
            {%- do numbers.append("'" ~ name ~ "', " ~ afterimage._number_of_bytes(row ~ '_digits.' ~ name)) -%}
        {%- endif -%}
        {%- set as_text = afterimage._debezium_text(text, column, row ~ '_numbers.' ~ name, layout.infinity) -%}
        {%- set count = afterimage._debezium_count(text, column) -%}
        {%- if count is not none -%}
            {%- do counts.append("'" ~ name ~ "', " ~ count) -%}
            {%- set as_text = 'if(' ~ row ~ '_counts.' ~ name ~ ' is null, ' ~ as_text ~ ', null)' -%}
        {%- endif -%}
        {%- do texts.append(as_text) -%}
    {%- endfor -%}
    {%- set steps = [[row ~ '_fields', afterimage._texts_of_columns(layout.columns, values)]] -%}
    {%- for name, fields in [('_digits', digits), ('_numbers', numbers), ('_counts', counts)] if fields -%}
        {%- do steps.append([
            row ~ name, 'if(' ~ values ~ ' is null, null, named_struct(' ~ fields | join(', ') ~ '))'
        ]) -%}
    {%- endfor -%}
    {{ return(steps + [[row ~ '_texts', 'if(' ~ values ~ ' is null, null, array(' ~ texts | join(', ') ~ '))']]) }}
{%- endmacro -%}


{#- The values of a row that need no text, by column. -#}
{%- macro _debezium_counted(columns, row) -%}
    {%- set counted = {} -%}
    {%- for column in columns if afterimage._debezium_count('', column) is not none -%}
        {%- do counted.update({column.name: row ~ '_counts.c' ~ (columns.index(column) + 1)}) -%}
    {%- endfor -%}
    {{ return(counted) }}
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
