{#- Values as SQL: as text, as something to compare, to sort by or to hash. Then times, as sources write them: texts,
    counts since 1970, places with a time in them. -#}


{#- A value as text. Bytes become hex, since a plain cast would garble them; arrays, structs and maps become JSON. From
    seven places on, a cast would write small decimals with an exponent (`0E-7`). -#}
{%- macro _as_text(expression, type) -%}
    {%- set scale = type.split(',')[-1][:-1] | int if type and type.startswith('decimal') and ',' in type else 0 -%}
    {%- if type == 'binary' -%}
        {{ return('hex(' ~ expression ~ ')') }}
    {%- elif type and '<' in type -%}
        {{ return(afterimage._exact_json(expression)) }}
    {%- elif scale > 6 -%}
        {{ return('format_number(' ~ expression ~ ", '0." ~ '0' * scale ~ "')") }}
    {%- endif -%}
    {{ return('cast(' ~ expression ~ ' as string)') }}
{%- endmacro -%}


{#- Bytes or a text as valid UTF-8, with U+FFFD in place of bytes that are not; a Python UDF would fail on those. Spark
    shows U+FFFD when it reads them, but writes it only where a function replaces something. -#}
{%- macro _valid_text(expression) -%}
    {{ return('regexp_replace(cast(' ~ expression ~ " as string), '\\uFFFD', '\\uFFFD')") }}
{%- endmacro -%}


{#- Values as JSON. Different values give different texts: times keep their microseconds, which plain `to_json` cuts to
    milliseconds. -#}
{%- macro _exact_json(expression) -%}
    {%- set time = 'yyyy-MM-dd HH:mm:ss.SSSSSS' -%}
    {{ return(
        'to_json(' ~ expression ~ ", map('timestampFormat', '" ~ time ~ "XXX', 'timestampNTZFormat', '" ~ time ~ "'))"
    ) }}
{%- endmacro -%}


{#- An expression that `<=>` can compare: Spark compares everything but maps. These become their entries in order of
    the keys, also within other types. -#}
{%- macro _comparable(expression, type, depth=0) -%}
    {%- if not type or 'map<' not in type -%}
        {{ return(expression) }}
    {%- endif -%}
    {%- set value, fields = 'value_' ~ depth, [] -%}
    {%- for part in afterimage._parts_of_type(type) -%}
        {%- do fields.append(afterimage._comparable(value ~ part.path, part.type, depth + 1)) -%}
    {%- endfor -%}
    {%- if type.startswith('array<') -%}
        {{ return('transform(' ~ expression ~ ', ' ~ value ~ ' -> ' ~ fields[0] ~ ')') }}
    {%- endif -%}
    {%- set body = 'struct(' ~ fields | join(', ') ~ ')' -%}
    {%- if type.startswith('struct<') -%}
        {{ return(afterimage._let(value, expression, 'if(' ~ value ~ ' is null, null, ' ~ body ~ ')')) }}
    {%- endif -%}
    {%- set entries = 'map_entries(' ~ expression ~ ')' -%}
    {%- if 'map<' in type[4:] -%}
        {%- set entries = 'transform(' ~ entries ~ ', ' ~ value ~ ' -> ' ~ body ~ ')' -%}
    {%- endif -%}
    {{ return('array_sort(' ~ entries ~ ')') }}
{%- endmacro -%}


{#- The columns of a row as expressions that `<=>` can compare. `types` are by name. -#}
{%- macro _comparable_columns(columns, types, prefix) -%}
    {%- set values = [] -%}
    {%- for column in columns -%}
        {%- do values.append(afterimage._comparable(prefix ~ afterimage._quote(column), types[column])) -%}
    {%- endfor -%}
    {{ return(values) }}
{%- endmacro -%}


{#- One number for all values of a row. xxhash64 skips NULLs, so the hash also covers which values exist: (NULL, 1)
    and (1, NULL) differ. -#}
{%- macro _hash_of_values(expressions) -%}
xxhash64(
    {%- for expression in expressions %}
    {{ expression }},
    isnull({{ expression }}){{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}


{#- The MD5 of a key, a struct. JSON has U+FFFD for all bytes that are no UTF-8, so a hash keeps such keys apart: that
    of the key, or of the `values` that tell the same. -#}
{%- macro _key_hash(key, values=none) -%}
    {%- set json = afterimage._exact_json(key) -%}
    {%- set garbled = 'contains(' ~ json ~ ", '\\uFFFD')" -%}
    {%- set hash = 'cast(xxhash64(' ~ (values or key) ~ ') as string)' -%}
    {{ return('md5(concat(' ~ json ~ ', if(' ~ garbled ~ ', ' ~ hash ~ ", '')))") }}
{%- endmacro -%}


{#- Bytes as hex digits in upper case; as landed, or from text that holds the digits, with 0x before them or colons
    between. -#}
{%- macro _hex_digits(column) -%}
    {%- set name = afterimage._quote(column.name) -%}
    {{ return(
        'hex(' ~ name ~ ')' if column.type == 'binary'
        else "upper(regexp_replace(trim(cast(" ~ name ~ " as string)), '^0[xX]|:', ''))"
    ) }}
{%- endmacro -%}


{#- A value as a text of hex digits and `-` that sorts like the value: texts and bytes as hex, numbers padded, times
    as their microseconds. None for a type without such a text. -#}
{%- macro _sortable_text(expression, type) -%}
    {%- if type in ['string', 'binary'] -%}
        {{ return('hex(' ~ expression ~ ')') }}
    {%- endif -%}
    {%- set is_decimal = type.startswith('decimal') -%}
    {%- set scale = type.split(',')[1].strip(')') | int if is_decimal else 0 -%}
    {%- set whole = 'floor(' ~ expression ~ ')' if is_decimal else expression -%}
    {%- if type in ['timestamp', 'timestamp_ntz', 'date'] -%}
        {%- set whole = 'unix_micros(cast(' ~ expression ~ ' as timestamp))' -%}
    {%- elif type not in ['tinyint', 'smallint', 'int', 'bigint'] and not (is_decimal and scale <= 36) -%}
        {{ return(none) }}
    {%- endif -%}
    {#- Below zero the complement of each digit, after a sign that sorts before all digits. -#}
    {%- set digits = 'lpad(cast(abs(cast(' ~ whole ~ ' as decimal(38,0))) as string), '
        ~ (38 if is_decimal else 19) ~ ", '0')" -%}
    {%- set text = 'if(' ~ whole ~ " < 0, concat('-', translate(" ~ digits ~ ", '0123456789', '9876543210')), "
        ~ digits ~ ')' -%}
    {#- One is added so that no small fraction is written with an exponent. -#}
    {{ return('concat(' ~ text ~ ', substr(cast(pmod(' ~ expression ~ ', 1) + 1 as string), 3))' if scale else text) }}
{%- endmacro -%}


{#- Columns of numbers as texts of equal length that sort like the numbers; NULL for anything else. -#}
{%- macro _number_texts(columns) -%}
    {%- set number = 'try_cast({column} as bigint)' -%}
    {{ return(afterimage._each(
        columns, 'lpad(cast(if(' ~ number ~ ' >= 0, ' ~ number ~ ", null) as string), 19, '0')"
    )) }}
{%- endmacro -%}


{#- The place that several changes share, without the suffix that `_finish` orders them by. The suffix may differ
    when the changes arrive again: if a change that gave its row another key is now ordered after a newcomer, it
    leaves its old key at another place. A suffix that belongs to the change itself, such as a counter, is kept. -#}
{%- macro _shared_place(change_seq) -%}
    {{ return('regexp_replace(' ~ change_seq ~ ", '[.](999[.][0-9]{9}|[0-9]{3})$', '')") }}
{%- endmacro -%}


{#- Whether a change was placed after the greatest change_seq known at its time (`<change_seq>.r<number>`). It moves
    when a greater change_seq arrives late. -#}
{%- macro _has_movable_place(change_seq) -%}
    {{ return(change_seq ~ " like '%.r%'") }}
{%- endmacro -%}


{#- A landed time as a timestamp; NULL if it is not a time, or a text without a date. `type` is the landed type. -#}
{%- macro _landed_time(expression, type=none) -%}
    {%- if type in ['timestamp', 'timestamp_ntz', 'date'] -%}
        {{ return('try_cast(' ~ expression ~ ' as timestamp)') }}
    {%- endif -%}
    {%- set text = expression if type == 'string' else 'cast(' ~ expression ~ ' as string)' -%}
    {#- A number counts as its digits: Spark would take 2024 for seconds since 1970. -#}
    {%- set time = 'try_cast(' ~ (text if type else expression) ~ ' as timestamp)' -%}
    {{ return('if(' ~ afterimage._has_no_date(text) ~ ', null, ' ~ time ~ ')') }}
{%- endmacro -%}


{#- Whether a text is only a time of day, to which Spark would add today's date, or five or six digits (`202401`,
    `093000`), which Spark would read as a year. -#}
{%- macro _has_no_date(text) -%}
    {{ return('not ' ~ text ~ " rlike '^\\\\s*[-+]?([0-9]{4,6}-|[0-9]{4}\\\\s*$)'") }}
{%- endmacro -%}


{#- Whether the text of a time says more than the type holds: Spark cuts what is beyond microseconds, and the zone where
    the type has none. -#}
{%- macro _loses_time(text, type) -%}
    {%- set lost = '[.][0-9]{6}[0-9]*[1-9]' ~ ('|:.*[^0-9.:\\\\s]' if type == 'timestamp_ntz' else '') -%}
    {{ return(text ~ " rlike '" ~ lost ~ "'") }}
{%- endmacro -%}


{#- A time of the source's clock in UTC. -#}
{%- macro _in_utc(expression, time_zone) -%}
    {%- if time_zone == 'UTC' -%}
        {{ return(expression) }}
    {%- endif -%}
    {{ return('to_utc_timestamp(' ~ expression ~ ', ' ~ afterimage._literal(time_zone) ~ ')') }}
{%- endmacro -%}


{#- A landed number since 1970 as a timestamp; NULL if it is none, or a placeholder of the first day. `unit` is `millis`
    or `micros`. -#}
{%- macro _landed_count(expression, unit) -%}
    {%- set number = 'try_cast(' ~ expression ~ ' as bigint)' -%}
    {%- set day = 86400000 if unit == 'millis' else 86400000000 -%}
    {{ return(
        'if(' ~ number ~ ' between ' ~ day ~ ' and ' ~ (day * 2932897 - 1) ~ ', timestamp_' ~ unit ~ '(' ~ number ~ '), null)'
    ) }}
{%- endmacro -%}


{#- The text of a date from a text that may be a number of days since 1970. Outside the years 1 to 9999 the result is
    not a date. -#}
{%- macro _counted_date(text) -%}
    {%- set days = 'try_cast(' ~ text ~ ' as int)' -%}
    {%- set date = "date_add(date '1970-01-01', if(" ~ days ~ ' between -719162 and 2932896, ' ~ days ~ ', null))' -%}
    {{ return(
        'if(' ~ text ~ " rlike '^-?[0-9]+$', coalesce(cast(" ~ date ~ ' as string), concat(' ~ text ~ ", ' days')), "
        ~ text ~ ')'
    ) }}
{%- endmacro -%}


{#- The text of a time in UTC, whatever the session's time zone, from a text that may be a number since 1970:
    milliseconds up to a precision of 3, microseconds up to 6, else nanoseconds. The result is no time if the
    year is not 1 to 9999, or without a precision. -#}
{%- macro _counted_time(text, precision) -%}
    {%- set per_second = 1000 if (precision or 0) <= 3 else 1000000 -%}
    {%- set number = 'try_cast(' ~ text ~ ' as bigint)' -%}
    {%- if (precision or 0) > 6 -%}
        {%- set number = 'try_cast(floor(try_cast(' ~ text ~ ' as decimal(25, 0)) / 1000) as bigint)' -%}
    {%- endif -%}
    {%- set within = number ~ ' between ' ~ -62135596800 * per_second ~ ' and ' ~ (253402300800 * per_second - 1) -%}
    {#- Decimals would do, too, and take several times as long. -#}
    {%- set time = "timestamp_ntz '1970-01-01 00:00:00' + interval '" ~ ('0.001' if per_second == 1000 else '0.000001')
        ~ "' second * if(" ~ within ~ ', ' ~ number ~ ', null)' -%}
    {{ return(
        'if(' ~ text ~ " rlike '^-?[0-9]+$', coalesce("
        ~ ('concat(cast(' ~ time ~ " as string), 'Z'), " if precision is not none) ~ 'concat(' ~ text
        ~ (", ' since 1970')), " if precision is not none else ", ': the type has no precision')), ") ~ text ~ ')'
    ) }}
{%- endmacro -%}


{#- The time in a sequence of 35 digits (`YYYYMMDDHHmmSShh` and a 19-digit counter), to a hundredth of a second; NULL
    if it has none. -#}
{%- macro _sequence_time(sequence) -%}
try_cast(
    concat(
        {%- for start in [1, 5, 7, 9, 11, 13, 15] %}
        substr({{ sequence }}, {{ start }}, {{ 4 if start == 1 else 2 }}), '{{ '--T::.Z'[loop.index0] }}'
        {{- ',' if not loop.last }}
        {%- endfor %}
    ) as timestamp
)
{%- endmacro -%}


{#- A date or time as SQL. It is given as text, or as SQL that yields it where that is allowed. -#}
{%- macro _timestamp(macro_name, argument, moment, may_be_sql=false) -%}
    {#- YAML reads a bare date as a date. -#}
    {%- set moment = moment if moment is string or moment is none else moment | string -%}
    {%- do afterimage._check_text(macro_name, argument, moment) -%}
    {%- if modules.re.match('[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?$', moment) -%}
        {{ return('timestamp ' ~ afterimage._literal(moment)) }}
    {%- elif may_be_sql -%}
        {{ return('(' ~ moment ~ ')') }}
    {%- endif -%}
    {%- do exceptions.raise_compiler_error(
        macro_name ~ ": `" ~ argument ~ "` must be a date or time as text, such as '9999-12-31'. Got: " ~ moment
    ) -%}
{%- endmacro -%}
