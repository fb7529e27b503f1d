{#- A time of the source's clock in UTC. -#}
{%- macro _in_utc(expression, time_zone) -%}
    {%- if time_zone == 'UTC' -%}
        {{ return(expression) }}
    {%- endif -%}
    {{ return('to_utc_timestamp(' ~ expression ~ ', ' ~ afterimage._literal(time_zone) ~ ')') }}
{%- endmacro -%}
