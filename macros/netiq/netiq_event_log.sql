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
    {%- set rules = {
        'driver_user': driver_user,
        'allow_loopback': allow_loopback,
        'future_events': future_events,
        'as_of': as_of,
        'force_username_case': force_username_case,
        'statuses': statuses,
        'trim_key_numbers': trim_key_numbers,
        'precedence': precedence,
    } -%}
    {%- set layout = afterimage._netiq_layout(
        'netiq_event_log', relation, unique_key, table, columns, base, column_names, time_zone, rules
    ) -%}
    {%- if not execute -%}
        {{ return('select 1 as parsed') }}
    {%- endif -%}
    {%- set new_shape = afterimage._check_drift(
        'netiq_event_log', relation, layout.columns, ['event_ids'], table=layout.table
    ) -%}
    {%- set side = afterimage._netiq_side(layout) -%}
    {%- set intake = afterimage._intake(
        'netiq_event_log', layout.unique_key, [side], new_shape, also=afterimage._netiq_due(layout, side),
        further_columns=['event_ids'], erased_columns={'event_ids': afterimage._netiq_erased_ids()},
        waits_for_time=layout.future_events, reads=[layout.base] if base is not none else [],
        declared=layout.columns, **afterimage._netiq_built_with(layout)
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {%- set layout = dict(
        layout, rows=intake.sides[0].rows, condition=intake.sides[0].condition or side.where,
        has_new_rules=intake.has_new_rules
    ) %}
with

{{ afterimage._netiq_changes(layout, afterimage._is_incremental(), new_shape) }},

{{ afterimage._finish(
    intake, layout.names, afterimage._column_types(layout.columns), layout.unique_key,
    lacks=['transaction_id'],
    further_columns=['event_ids']
) }}
{%- endmacro -%}


{#- Places and ids are `made_by` some arguments, and for its time an event has its place only with `future_events`. What
    an event is worth is `read_by` the others. -#}
{%- macro _netiq_built_with(layout) -%}
    {%- set zone = {'time_zone': layout.time_zone or 'UTC'} -%}
    {%- set made_by = {
        'table': layout.table | lower,
        'future_events': layout.future_events | string | lower,
        'trim_key_numbers': layout.trim_key_numbers | string | lower,
    } -%}
    {%- set read_by = {
        'statuses': layout.statuses | unique | sort | join(', '),
        'driver_user': layout.driver_user | string,
        'allow_loopback': layout.allow_loopback | string | lower,
        'force_username_case': layout.force_username_case | string | lower,
    } -%}
    {%- do (made_by if layout.future_events else read_by).update(zone) -%}
    {{ return({'made_by': made_by, 'read_by': read_by}) }}
{%- endmacro -%}


{#- Some event_ids hold the key. An event must be known again where the intervals of its key are kept. -#}
{%- macro _netiq_erased_ids() -%}
    {{ return("transform(event_ids, id -> if(startswith(id, 'erased-'), id, concat('erased-', md5(id))))") }}
{%- endmacro -%}


{#- The rows of the log, for the intake. Earlier and later events of the same row decide about an event, so they are
    read together. Different spellings of a key share a group; a group may hold more than one key. -#}
{%- macro _netiq_side(layout) -%}
    {%- set log = layout.log -%}
    {%- set table_name = 'trim(cast(' ~ log.table_name ~ ' as string))' -%}
    {%- set group -%}
coalesce(
    array_join(
        array_sort(split(
            regexp_replace(
                regexp_replace(lower(cast({{ log.table_key }} as string)), '["\\\\\\s]', ''),
                '=0+(?=[0-9])',
                '='
            ),
            '[+]'
        )),
        '+'
    ),
    ''
)
    {%- endset -%}
    {%- set is_named = 'lower(' ~ table_name ~ ') = ' ~ afterimage._literal(layout.table | lower) -%}
    {#- A row that names no table belongs to no model, so every model that reads the log accounts for it. It has one
        change_id, so of several calls in a model the first one reads it. -#}
    {%- set is_first = layout.relation | string not in afterimage._noted_intakes() | map(attribute='name') -%}
    {{ return({
        'relation': layout.relation,
        'group': group,
        'where': "coalesce(" ~ table_name ~ ", '') = '' or " ~ is_named if is_first else is_named,
        'time': afterimage._netiq_event_time(layout),
    }) }}
{%- endmacro -%}


{#- A query for the groups that earlier runs held back and that are due now; none if there are none. -#}
{%- macro _netiq_due(layout, side) -%}
    {%- if not (layout.future_events and afterimage._is_incremental()) -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set due -%}
        select regexp_extract(change_seq, '([0-9]{20})(?:[.][0-9]+)*$', 1) from {{ this }}
        where reject_reason like 'held back:%' and changed_at <= timestamp '{{ layout.as_of }}'
    {%- endset -%}
    {%- if run_query(due ~ ' limit 1').rows | length == 0 -%}
        {{ return([]) }}
    {%- endif -%}
    {{ return([
        'select ' ~ side.group ~ ' from ' ~ layout.relation ~ ' where (' ~ side.where ~ ') and '
        ~ afterimage._netiq_record_no(layout.log) ~ ' in (' ~ due ~ ')'
    ]) }}
{%- endmacro -%}
