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
