{#- The order of a key's events, as a window. -#}
{%- macro _event_window(keys) -%}
    {{ return('partition by ' ~ keys | join(', ') ~ ' order by change_seq, event_rank, load_time, change_id') }}
{%- endmacro -%}
