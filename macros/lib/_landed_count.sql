{#- A landed number since 1970 as a timestamp; NULL if it is none, or a placeholder of the first day. `unit` is `millis`
    or `micros`. -#}
{%- macro _landed_count(expression, unit) -%}
    {%- set number = 'try_cast(' ~ expression ~ ' as bigint)' -%}
    {%- set day = 86400000 if unit == 'millis' else 86400000000 -%}
    {{ return(
        'if(' ~ number ~ ' between ' ~ day ~ ' and ' ~ (day * 2932897 - 1) ~ ', timestamp_' ~ unit ~ '(' ~ number ~ '), null)'
    ) }}
{%- endmacro -%}
