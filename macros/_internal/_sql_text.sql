{#- Column names as Spark identifiers, so that hyphens, leading underscores and reserved words work. -#}
{%- macro _quote(name) -%}
    {{ return('`' ~ (name | replace('`', '``')) ~ '`') }}
{%- endmacro -%}


{#- A text as a Spark literal. -#}
{%- macro _literal(text) -%}
    {{ return("'" ~ (text | replace('\\', '\\\\') | replace("'", "\\'")) ~ "'") }}
{%- endmacro -%}


{#- `named_struct('a', <prefix>a, 'b', <prefix>b)`: a struct whose field names are spelled as given. -#}
{%- macro _struct(columns, prefix='') -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- do fields.append(afterimage._literal(column) ~ ', ' ~ prefix ~ afterimage._quote(column)) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}


{#- `array('a', 'b')` of literals, typed also when it is empty. -#}
{%- macro _string_array(values) -%}
    {%- if not values -%}
        {{ return("cast(array() as array<string>)") }}
    {%- endif -%}
    {%- set literals = [] -%}
    {%- for value in values -%}
        {%- do literals.append(afterimage._literal(value)) -%}
    {%- endfor -%}
    {{ return('array(' ~ literals | join(', ') ~ ')') }}
{%- endmacro -%}


{#- The columns, quoted, each behind a prefix such as `image.`. -#}
{%- macro _quoted(columns, prefix='') -%}
    {%- set quoted = [] -%}
    {%- for column in columns -%}
        {%- do quoted.append(prefix ~ afterimage._quote(column)) -%}
    {%- endfor -%}
    {{ return(quoted) }}
{%- endmacro -%}


{#- Columns as a list for SELECT, GROUP BY or PARTITION BY. -#}
{%- macro _quoted_list(columns) -%}
    {{ return(afterimage._quoted(columns) | join(', ')) }}
{%- endmacro -%}


{#- One number for all values of a row. xxhash64 skips NULLs; saying which hold one keeps (NULL, 1) and (1, NULL)
    apart. -#}
{%- macro _hash_of_values(expressions) -%}
xxhash64(
    {%- for expression in expressions %}
    {{ expression }},
    isnull({{ expression }}){{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}


{#- Whether a text is no decimal of a type, or has digits that the type would round away. With an exponent the two are
    compared with as many digits behind the point as there is room for. -#}
{%- macro _decimal_misfit(text, type) -%}
    {%- set parts = (type ~ '(10,0)').split('(')[1].split(')')[0].split(',') -%}
    {%- set scale = parts[1] | int if parts | length > 1 else 0 -%}
    {%- set widest = 'decimal(38,' ~ (38 - (parts[0] | int) + scale) ~ ')' -%}
    {{ return(
        '(coalesce(try_cast(' ~ text ~ ' as ' ~ type ~ ') <> try_cast(' ~ text ~ ' as ' ~ widest ~ '), true) or '
        ~ text ~ " rlike '^[^eE]*[.][0-9]{" ~ scale ~ "}[0-9]*[1-9]')"
    ) }}
{%- endmacro -%}


{#- Whether a text is a time of day alone, which Spark would make one of today. -#}
{%- macro _has_no_date(text) -%}
    {{ return('not ' ~ text ~ " rlike '^\\\\s*[-+]?[0-9]{4}'") }}
{%- endmacro -%}


{#- A landed time as a timestamp; NULL where it is none, or a text without a date. `type` is that of what landed. -#}
{%- macro _landed_time(expression, type=none) -%}
    {%- set time = 'try_cast(' ~ expression ~ ' as timestamp)' -%}
    {%- if type in ['timestamp', 'timestamp_ntz', 'date'] -%}
        {{ return(time) }}
    {%- endif -%}
    {%- set text = expression if type == 'string' else 'cast(' ~ expression ~ ' as string)' -%}
    {{ return('if(' ~ afterimage._has_no_date(text) ~ ', null, ' ~ time ~ ')') }}
{%- endmacro -%}


{#- Values as one text that differs wherever they differ: of a time Spark's `to_json` leaves out what is below a
    millisecond. -#}
{%- macro _exact_json(expression) -%}
    {%- set time = 'yyyy-MM-dd HH:mm:ss.SSSSSS' -%}
    {{ return(
        'to_json(' ~ expression ~ ", map('timestampFormat', '" ~ time ~ "XXX', 'timestampNTZFormat', '" ~ time ~ "'))"
    ) }}
{%- endmacro -%}


{#- A value as text; bytes as hex, which a plain cast would garble, and what holds several values as JSON. -#}
{%- macro _as_text(expression, type) -%}
    {%- if type == 'binary' -%}
        {{ return('hex(' ~ expression ~ ')') }}
    {%- elif type and '<' in type -%}
        {{ return(afterimage._exact_json(expression)) }}
    {%- endif -%}
    {{ return('cast(' ~ expression ~ ' as string)') }}
{%- endmacro -%}


{#- NULL-safe equality of some fields of two structs. -#}
{%- macro _same_columns(left, right, columns) -%}
    {%- set conditions = [] -%}
    {%- for column in columns -%}
        {%- do conditions.append(
            left ~ '.' ~ afterimage._quote(column) ~ ' <=> ' ~ right ~ '.' ~ afterimage._quote(column)
        ) -%}
    {%- endfor -%}
    {{ return(conditions | join(' and ')) }}
{%- endmacro -%}
