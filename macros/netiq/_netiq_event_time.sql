{%- macro _netiq_event_time(layout) -%}
    {{ return(afterimage._in_utc(afterimage._landed_time(layout.log.event_time), layout.time_zone or 'UTC')) }}
{%- endmacro -%}
