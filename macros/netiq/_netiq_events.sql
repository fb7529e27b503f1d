{#- The CTEs from an event log's rows to `judged`: each event once, with the reason if it is set aside, and with the
    values that show which events are one change. Steps are merged where possible: Spark resolves a query from the
    inside out, a few rounds per step, and gives up after 100 rounds. -#}
{%- macro _netiq_events(layout, incremental) -%}
{{ afterimage._netiq_log_rows(layout) }},

{{ afterimage._netiq_named_events(layout) }},
{%- if incremental %}

{{ afterimage._netiq_remembered_events(layout) }},
{%- endif %}
{%- if layout.base is not none %}

{{ afterimage._netiq_base_rows(layout) }},
{%- endif %}

{{ afterimage._netiq_events_judged_alone(layout, incremental) }},

{{ afterimage._netiq_events_judged_together(layout, incremental) }}
{%- endmacro -%}
