{#- Identity Manager JDBC event log table -> change contract. Arguments: netiq_event_log.yml. -#}
{%- macro netiq_event_log(
    relation,
    unique_key,
    table,
    columns,
    base=none,
    driver_user=none,
    allow_loopback=false,
    future_events=false,
    as_of=none,
    column_names={},
    force_username_case=none,
    statuses=['N'],
    trim_key_numbers=false,
    time_zone=none,
    precedence='driver'
) -%}
    {%- set layout = afterimage._netiq_layout(
        'netiq_event_log', relation, unique_key, table, columns, base, driver_user, allow_loopback, future_events,
        as_of, column_names, force_username_case, statuses, trim_key_numbers, time_zone, precedence
    ) -%}
    {%- if not execute -%}
        {{ return('select 1 as parsed') }}
    {%- endif -%}
    {%- do afterimage._check_drift('netiq_event_log', relation, layout.columns, ['event_ids']) -%}
    {%- set side = afterimage._netiq_side(layout) -%}
    {%- set intake = afterimage._intake('netiq_event_log', [side], also=afterimage._netiq_due(layout, side)) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.marker ~ afterimage._no_new_changes(['event_ids'])) }}
    {%- endif -%}
    {%- do layout.update({'rows': intake.sides[0].rows, 'condition': intake.sides[0].condition}) %}
{{ intake.marker }}

with

{{ afterimage._netiq_changes(layout, afterimage._is_incremental()) }},

{{ afterimage._finish(
    intake, layout.names, layout.unique_key,
    lacks=['transaction_id'],
    further_columns=['event_ids']
) }}
{%- endmacro -%}
