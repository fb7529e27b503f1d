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
