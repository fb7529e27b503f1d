{#- The CTE `complete_events`, which fills in the columns that key changes lack: from the table `plan.carried`, or
    as far as SQL alone can follow a row, through two key changes. Values that are not found are NULL. -#}
{%- macro _complete_events(plan, columns) -%}
{%- set event_columns = plan.key_names + [
    'change_seq', 'event_rank', 'load_time', 'change_id', 'operation', 'ended_by', 'is_row', 'image', 'unknown_columns',
    'arrived_by', 'before_image', 'changed_at', 'transaction_id'
] + (['changed_by'] if plan.names_user else [])
    + (['start_seq', 'is_known', 'version_base'] if plan.is_rebuilt else []) -%}
{%- if not plan.carried -%}
{{ afterimage._carried_values(plan) }},

carried_values as (

    {{ afterimage._carried_from_earlier_keys('carried', plan) | indent(4) }}

),

{% endif -%}
-- Separate from the other events, so that few rows are joined.
complete_events as (

    select {{ event_columns | join(', ') }}
    from {{ plan.events }}
    where
        not coalesce({{ afterimage._lacks_values('arrived_by') }}, false)
        {{- '\n        and not is_earlier_row' if plan.trades }}
    union all
    select
        {%- for name in event_columns %}
        {%- if name == 'image' %}
        named_struct(
            {%- for column in columns %}
            {%- set name = afterimage._quote(column) %}
            {{ afterimage._literal(column) }},
            {%- if column in plan.sparse %}
            if(
                array_contains(given.unknown_columns, {{ afterimage._literal(column) }}),
                carried.value_{{ plan.sparse.index(column) + 1 }}.value,
                given.image.{{ name }}
            )
            {%- else %}
            given.image.{{ name }}
            {%- endif %}
            {{- ',' if not loop.last }}
            {%- endfor %}
        ) as image
        {%- else %}
        given.{{ name }}
        {%- endif %}
        {{- ',' if not loop.last }}
        {%- endfor %}

    from {{ plan.events }} as given
    inner join {{ plan.carried or 'carried_values' }} as carried
        on given.change_id = carried.change_id
    where {{ afterimage._lacks_values('given.arrived_by', 'given.') }}

)
{%- endmacro -%}
