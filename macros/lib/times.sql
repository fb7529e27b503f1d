{#- Times as sources write them: texts, counts since 1970, places with a time in them. -#}


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
    {%- set unit = 3 if (precision or 0) <= 3 else 6 if precision <= 6 else 9 -%}
    {%- set number = 'try_cast(' ~ text ~ ' as decimal(38, 0))' -%}
    {%- set seconds = 'floor(' ~ number ~ ' / ' ~ 10 ** [unit - 6, 0] | max ~ ') / ' ~ 10 ** [unit, 6] | min -%}
    {%- set time = "timestamp_ntz '1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, cast(if(" ~ seconds
        ~ ' between -62135596800 and 253402300799.999999, ' ~ seconds ~ ', null) as decimal(18, 6)))' -%}
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
