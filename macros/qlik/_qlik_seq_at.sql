{#- The first change_seq of a second. It is in UTC, whatever the session's time zone. -#}
{%- macro _qlik_seq_at(time) -%}
concat(date_format(to_utc_timestamp({{ time }}, current_timezone()), 'yyyyMMddHHmmss'), repeat('0', 21))
{%- endmacro -%}
