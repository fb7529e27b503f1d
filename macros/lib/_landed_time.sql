{#- A landed time as a timestamp; NULL where it is none, or a text without a date. `type` is that of what landed. -#}
{%- macro _landed_time(expression, type=none) -%}
    {%- set time = 'try_cast(' ~ expression ~ ' as timestamp)' -%}
    {%- if type in ['timestamp', 'timestamp_ntz', 'date'] -%}
        {{ return(time) }}
    {%- endif -%}
    {%- set text = expression if type == 'string' else 'cast(' ~ expression ~ ' as string)' -%}
    {{ return('if(' ~ afterimage._has_no_date(text) ~ ', null, ' ~ time ~ ')') }}
{%- endmacro -%}
