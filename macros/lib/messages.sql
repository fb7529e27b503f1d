{#- Values of a message, which are texts, as columns with types; and which of them do not fit. -#}


{#- A JSON object as a map of texts; NULL for any other text. -#}
{%- macro _json_map(text) -%}
    {{ return('from_json(' ~ text ~ ", 'map<string, string>')") }}
{%- endmacro -%}


{#- A JSON text of which Spark reads every number as it is written. It reads a number with a fraction or an exponent as
    a double, and writes that as a text again: `1.10` becomes `1.1`. So if there is a number that would become another
    text, all such numbers are put in quotes. Few messages have one, and to look for it costs half of what quotes do.
    Within an array or an object they are always put in quotes: its text must not depend on the numbers beside it. Parts of
    a message are none, unless one of `columns` has the name.

    The pattern that puts them in quotes goes on where its last match ended (`\G`), over texts, whole numbers and what is
    neither, to the next such number. What is no JSON ends the search, and is no JSON afterwards. No part of it ever goes
    back, so it takes time in proportion to the text. -#}
{%- macro _exact_numbers(text, columns=[]) -%}
{#- Up to seven digits before the point and eight behind it, no zero too many, and not below 0.001. -#}
{%- set kept = '-?+(?:[1-9]\\d{0,6}+|0(?!\\.000))\\.(?:0|\\d{0,7}[1-9])\\s*+[,}\\]]' -%}
{%- set changed -%}
    [:,\[]\s*+
    (?=-?+\d++[.eE])
    (?!{{ kept }})
    -?+(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+\-]?+\d++)?+
    \s*+[,}\]]
{%- endset -%}
{%- set parts = [
    'before', 'after', 'source', 'transaction', 'payload', 'schema', 'data', 'beforeData', 'headers', 'message'
] | reject('in', columns) | join('|') -%}
{#- An array or an object in a row, and not one that makes up the message. -#}
{%- set nested = '[\\[{](?<!(?:^|"(?:' ~ parts ~ ')"\\s{0,9}:)\\s{0,9}[\\[{])' -%}
{%- set fraction = '[:,\\[]\\s*+-?+\\d++[.eE]' -%}
{%- set pattern -%}
    (?s)\G
    ((?:
        [^"'\d\-]++
        |"(?:[^"\\]++|\\.)*+"
        |-?+\d++(?![.eE\d])
    )*+)
    (-?+(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+\-]?+\d++)?+)
    (?=\s*+(?:[,}\]]|$))
{%- endset -%}
if(
    {{ text }} rlike {{ afterimage._literal(changed.split() | join) }}
    or (
        {{ text }} rlike {{ afterimage._literal(nested) }}
        and {{ text }} rlike {{ afterimage._literal(fraction) }}
    ),
    regexp_replace({{ text }}, {{ afterimage._literal(pattern.split() | join) }}, '$1"$2"'),
    {{ text }}
)
{%- endmacro -%}


{#- Some values of a map of texts as one text, which differs if they do. -#}
{%- macro _texts_of_map(values, names) -%}
    {{ return('to_json(array(' ~ afterimage._each(names, values ~ '[{name}]') | join(', ') ~ '))') }}
{%- endmacro -%}


{#- The values of the columns in a map of texts, as an array in the order of the columns. Most rows have just the
    declared columns in their order; then none need be sought. -#}
{%- macro _texts_of_columns(columns, values) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {{ return(
        'if(map_keys(' ~ values ~ ') <=> ' ~ afterimage._string_array(names) ~ ', map_values(' ~ values ~ '), array('
        ~ afterimage._each(names, values ~ '[{name}]') | join(', ') ~ '))'
    ) }}
{%- endmacro -%}


{#- A struct of the data columns from an array of their texts. `filled` are columns whose value `fill_from`, another
    such array, gives if it is missing here. `known` has SQL for values that need no text, by column. -#}
{%- macro _image_of_texts(columns, texts, fill_from=none, filled=[], known={}) -%}
named_struct(
    {%- for column in columns %}
    {%- set text = texts ~ '[' ~ loop.index0 ~ ']' %}
    {%- if column.name in filled %}
    {%- set text = 'coalesce(' ~ text ~ ', ' ~ fill_from ~ '[' ~ loop.index0 ~ '])' %}
    {%- endif %}
    {%- set value = afterimage._cast_text(text, column.type) %}
    {%- if column.name in known %}
    {%- set value = 'coalesce(' ~ known[column.name] ~ ', ' ~ value ~ ')' %}
    {%- endif %}
    {{ afterimage._literal(column.name) }}, {{ value }}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)
{%- endmacro -%}


{#- The values of images as expressions to hash. -#}
{%- macro _hashable_images(columns, images) -%}
    {%- set values = [] -%}
    {%- for image in images -%}
        {%- do values.append(image ~ ' is null') -%}
        {%- for column in columns -%}
            {%- set value = image ~ '.' ~ afterimage._quote(column.name) -%}
            {#- xxhash64 skips the NULLs in an array. -#}
            {%- do values.append('to_json(' ~ value ~ ')' if column.type.startswith('array<') else value) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(values) }}
{%- endmacro -%}


{#- A message's value, which is a text, as the column's type; NULL if it does not fit. -#}
{%- macro _cast_text(text, type) -%}
    {%- if type == 'string' -%}
        {{ return(text) }}
    {%- elif type == 'binary' -%}
        {{ return('unhex(' ~ text ~ ')') }}
    {%- elif type.startswith('array<') -%}
        {{ return('from_json(' ~ text ~ ", '" ~ type ~ "')") }}
    {%- elif type == 'date' or type.startswith('timestamp') -%}
        {#- Spark ignores the zone of a text where the type has none. -#}
        {%- set time = 'try_cast(' ~ text ~ ' as timestamp)' if type == 'timestamp_ntz' else text -%}
        {{ return('if(' ~ afterimage._has_no_date(text) ~ ', null, try_cast(' ~ time ~ ' as ' ~ type ~ '))') }}
    {%- endif -%}
    {%- if type in ['tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint', 'long'] -%}
        {#- A whole number may be written `5.0`, which not every cast accepts. -#}
        {%- set text = 'substring_index(' ~ text ~ ", '.', 1)" -%}
    {%- endif -%}
    {{ return('try_cast(' ~ text ~ ' as ' ~ type ~ ')') }}
{%- endmacro -%}


{#- What is wrong with the texts of a row, beside the `image` that was made of them: an array of texts, empty if nothing
    is. -#}
{%- macro _misfits(columns, texts, image, what) -%}
    {%- set checks = [] -%}
    {%- for column in columns -%}
        {%- set text = texts ~ '[' ~ loop.index0 ~ ']' -%}
        {%- set misfit = afterimage._misfit(text, image ~ '.' ~ afterimage._quote(column.name), column.type) -%}
        {%- if misfit is not none -%}
            {%- do checks.append([
                text ~ ' is not null and ' ~ misfit,
                'concat(' ~ afterimage._literal(column.name ~ what ~ ' "') ~ ', left(' ~ text ~ ', 60), '
                ~ afterimage._literal('" (' ~ column.type ~ ')') ~ ')'
            ]) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(afterimage._texts_where(checks)) }}
{%- endmacro -%}


{#- Whether a text that is not NULL does not fit the type, or lost something when it became a `value` of that type; none
    if every text fits. A value that is written like its text has lost nothing, and is soon compared. -#}
{%- macro _misfit(text, value, type) -%}
    {%- set base = type.split('(')[0] | trim -%}
    {%- set lost -%}
        {%- if base in ['decimal', 'dec', 'numeric'] -%}
            {{ afterimage._decimal_loss(text, type) }}
        {%- elif base in ['tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint', 'long'] -%}
            not {{ text }} rlike '^\\s*[-+]?[0-9]+([.]0*)?\\s*$'
        {%- elif base == 'date' -%}
            coalesce(cast({{ value }} as timestamp) <> try_cast({{ text }} as timestamp), true)
        {%- endif -%}
    {%- endset -%}
    {%- if base in ['string', 'varchar', 'char'] -%}
        {{ return(none) }}
    {%- elif base == 'binary' -%}
        {{ return('(' ~ value ~ ' is null or length(' ~ text ~ ') % 2 = 1)') }}
    {%- elif lost -%}
        {{ return(
            '(' ~ value ~ ' is null or cast(' ~ value ~ ' as string) <> ' ~ text ~ ' and ' ~ lost ~ ')'
        ) }}
    {%- endif -%}
    {{ return(value ~ ' is null') }}
{%- endmacro -%}


{#- Whether a text is not a decimal of the type, or has digits that the type would round away. -#}
{%- macro _decimal_misfit(text, type) -%}
    {{ return('(try_cast(' ~ text ~ ' as ' ~ type ~ ') is null or ' ~ afterimage._decimal_loss(text, type) ~ ')') }}
{%- endmacro -%}


{#- Whether a text, which is a number, has digits that a decimal type would round away. -#}
{%- macro _decimal_loss(text, type) -%}
    {%- set parts = (type ~ '(10,0)').split('(')[1].split(')')[0].split(',') -%}
    {%- set scale = parts[1] | int if parts | length > 1 else 0 -%}
    {#- The number of decimal places. -#}
    {%- set places = "length(regexp_extract(" ~ text ~ ", '[.]([0-9]*)', 1)) - try_cast(regexp_extract(" ~ text
        ~ ", '[eE][+]?(-?[0-9]+)', 1) as int)" -%}
    {%- set excess = "right(regexp_replace(" ~ text ~ ", '[eE].*$|[^0-9]', ''), " ~ places ~ " - " ~ scale ~ ")" -%}
    {{ return(
        'if(' ~ text ~ " rlike '[eE]', coalesce(" ~ excess ~ " rlike '[1-9]', true), " ~ text ~ " rlike '[.][0-9]{"
        ~ scale ~ "}[0-9]*[1-9]')"
    ) }}
{%- endmacro -%}


{#- The whole number in bytes (hex digits), two's complement and high byte first, as a text; NULL if the bytes are none
    or more than 16. Spark has no function for more than 8. -#}
{%- macro _number_of_bytes(digits) -%}
{%- set fill = "if(" ~ digits ~ " >= '8', 'F', '0')" -%}
case
    when length({{ digits }}) between 2 and 16 then conv(lpad({{ digits }}, 16, {{ fill }}), 16, -10)
    when length({{ digits }}) between 18 and 32
        then cast(try_add(
            try_multiply(
                cast(conv(left(lpad({{ digits }}, 32, {{ fill }}), 16), 16, -10) as decimal(20, 0)), 18446744073709551616bd
            ),
            cast(conv(right({{ digits }}, 16), 16, 10) as decimal(20, 0))
        ) as string)
end
{%- endmacro -%}


{#- The decimal with the digits of a whole number, a text, of which so many are behind the point, as a text. -#}
{%- macro _decimal_of_number(number, scale) -%}
    {%- if scale == 0 -%}
        {{ return(number) }}
    {%- endif -%}
    {%- set digits = "ltrim('-', " ~ number ~ ')' -%}
    {%- set digits = 'lpad(' ~ digits ~ ', greatest(length(' ~ digits ~ '), ' ~ (scale + 1) ~ "), '0')" -%}
    {{ return(
        'concat(if(startswith(' ~ number ~ ", '-'), '-', ''), left(" ~ digits ~ ', length(' ~ digits ~ ') - ' ~ scale
        ~ "), '.', right(" ~ digits ~ ', ' ~ scale ~ '))'
    ) }}
{%- endmacro -%}


{#- The bytes in a Base64 text as hex digits; NULL for any other text. Spark itself takes texts without padding. -#}
{%- macro _hex_of_base64(text) -%}
    {%- set is_base64 = text ~ " rlike '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$'" -%}
    {{ return('hex(try_to_binary(if(' ~ is_base64 ~ ', ' ~ text ~ ", null), 'base64'))") }}
{%- endmacro -%}


{#- Whether a row of schemas, or a message, belongs to the table that the caller asked for: `table` or
    `schema.table`. NULL if it does not say enough. -#}
{%- macro _is_table(table, schema_name, table_name) -%}
{%- set asked = afterimage._literal(table | lower) -%}
case
            when {{ asked }} in (lower({{ table_name }}), lower(concat({{ schema_name }}, '.', {{ table_name }}))) then true
            when {{ table_name }} is null then null
            when {{ schema_name }} is null and endswith({{ asked }}, lower(concat('.', {{ table_name }}))) then null
            else false
        end
{%- endmacro -%}
