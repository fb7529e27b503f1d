{#- The latest time that may count as the newest change when a run decides what to read: a day after the run's
    start. Otherwise a change dated 2099 would hide all that arrives until then. -#}
{%- macro _latest_time() -%}
    {{ return((run_started_at + modules.datetime.timedelta(days=1)).strftime('%Y-%m-%d %H:%M:%S')) }}
{%- endmacro -%}
