{#- Values as SQL: as text, as something to compare, to sort by or to hash. -#}


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


{#- An expression that `<=>` can compare: Spark compares everything but maps. -#}
{%- macro _comparable(expression, type) -%}
    {%- if type and type.startswith('map<') and 'map<' not in type[4:] -%}
        {{ return('array_sort(map_entries(' ~ expression ~ '))') }}
    {%- endif -%}
    {{ return(afterimage._exact_json(expression) if type and 'map<' in type else expression) }}
{%- endmacro -%}


{#- The columns of a row as expressions that `<=>` can compare. `types` are by name. -#}
{%- macro _comparable_columns(columns, types, prefix) -%}
    {%- set values = [] -%}
    {%- for column in columns -%}
        {%- do values.append(afterimage._comparable(prefix ~ afterimage._quote(column), types[column])) -%}
    {%- endfor -%}
    {{ return(values) }}
{%- endmacro -%}


{#- Whether the before-image has a value that differs from the row's known value. NULL proves nothing: a
    before-image may leave out columns that were not captured. Values are compared as texts by name, so that the SQL
    does not grow with the number of columns. -#}
{%- macro _contradicts(row) -%}
{%- set fields -%}
from_json({{ afterimage._exact_json('before_image') }}, 'map<string, string>')
{%- endset -%}
coalesce(
    exists(
        map_entries({{ fields }}),
        claim -> not coalesce(array_contains({{ row }}.unknown_columns, claim.key), false)
        and not coalesce({{ fields | replace('before_image', row ~ '.image') }}[claim.key] = claim.value, false)
    ),
    false
)
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


{#- The MD5 of a key, a struct. JSON has U+FFFD for all bytes that are no UTF-8, so a hash keeps such keys apart. -#}
{%- macro _key_hash(key) -%}
    {%- set json = afterimage._exact_json(key) -%}
    {%- set garbled = 'contains(' ~ json ~ ", '\\uFFFD')" -%}
    {{ return('md5(concat(' ~ json ~ ', if(' ~ garbled ~ ', cast(xxhash64(' ~ key ~ ") as string), '')))") }}
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
