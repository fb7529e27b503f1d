{#- A landed time as a timestamp; NULL if it is not a time, or a text without a date. `type` is the landed type. -#}
{%- macro _landed_time(expression, type=none) -%}
    {%- set time = 'try_cast(' ~ expression ~ ' as timestamp)' -%}
    {%- if type in ['timestamp', 'timestamp_ntz', 'date'] -%}
        {{ return(time) }}
    {%- endif -%}
    {%- set text = expression if type == 'string' else 'cast(' ~ expression ~ ' as string)' -%}
    {{ return('if(' ~ afterimage._has_no_date(text) ~ ', null, ' ~ time ~ ')') }}
{%- endmacro -%}
