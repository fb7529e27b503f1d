{#- The time up to which a change counts as the newest, for a run to decide what it reads: a day from its start. A
    change that says it is of 2099 would hide all that comes until then. -#}
{%- macro _latest_time() -%}
    {{ return((run_started_at + modules.datetime.timedelta(days=1)).strftime('%Y-%m-%d %H:%M:%S')) }}
{%- endmacro -%}
