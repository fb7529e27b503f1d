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
    {%- set layout = afterimage._netiq_layout('netiq_event_log', relation, unique_key, table, columns, base, column_names, time_zone, {
        'driver_user': driver_user,
        'allow_loopback': allow_loopback,
        'future_events': future_events,
        'as_of': as_of,
        'force_username_case': force_username_case,
        'statuses': statuses,
        'trim_key_numbers': trim_key_numbers,
        'precedence': precedence,
    }) -%}
    {%- if not execute -%}
        {{ return('select 1 as parsed') }}
    {%- endif -%}
    {%- set new_columns = afterimage._check_drift('netiq_event_log', relation, layout.columns, ['event_ids']) -%}
    {%- set side = afterimage._netiq_side(layout) -%}
    {%- set intake = afterimage._intake(
        'netiq_event_log', layout.unique_key, [side], new_columns, also=afterimage._netiq_due(layout, side),
        further_columns=['event_ids']
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {%- set layout = dict(layout, rows=intake.sides[0].rows, condition=intake.sides[0].condition) %}
with

{{ afterimage._netiq_changes(layout, afterimage._is_incremental()) }},

{{ afterimage._finish(
    intake, layout.names, layout.unique_key,
    lacks=['transaction_id'],
    further_columns=['event_ids']
) }}
{%- endmacro -%}
