{#- A landed number of milliseconds since 1970 as a timestamp; NULL if it is none, or a placeholder of the first day. -#}
{%- macro _landed_millis(expression) -%}
    {%- set millis = 'try_cast(' ~ expression ~ ' as bigint)' -%}
    {{ return('if(' ~ millis ~ ' between 86400000 and 253402300799999, timestamp_millis(' ~ millis ~ '), null)') }}
{%- endmacro -%}
