{#- When the database made the change. Zeros stand for an unknown time. -#}
{%- macro _debezium_time() -%}
    {%- set millis = 'try_cast(m.source.ts_ms as bigint)' -%}
    {{ return(
        'if(' ~ millis ~ ' between 86400000 and 253402300799999, timestamp_millis(' ~ millis ~ '), null)'
    ) }}
{%- endmacro -%}
