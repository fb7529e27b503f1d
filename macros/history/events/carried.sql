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
-- Only events that lack values are joined; the others are passed through.
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


{#- The CTEs from all events to `carried`, one row per key change that lacks columns. It has `change_id`; for the
    n-th sparse column `value_n`, a struct of the value and whether it is known; and `carried_by`, the key change
    that had carried the row to the old key. -#}
{%- macro _carried_values(plan) -%}
{%- set before = afterimage._event_window(plan.key_names) ~ ' rows between unbounded preceding and 1 preceding' -%}
{%- set is_real_end = 'not is_row' ~ (' and not is_earlier_row' if plan.trades else '') -%}
-- What is known of the row at the key just before each event. An end leaves nothing behind. A row that comes from
-- another key has the values captured then, and for the others the change that carried it.
held_values as (

    select
        *,
        struct(
            last(
                case
                    when {{ is_real_end }} then struct(cast(null as string) as change_id)
                    when arrived_by = 'key_change' then struct(change_id as change_id)
                end,
                true
            ) over ({{ before }}).change_id as carried_by
            {%- for column in plan.sparse %},
            {%- set value = 'image.' ~ afterimage._quote(column) %}
            last(
                case
                    when is_row and not coalesce(array_contains(unknown_columns, {{ afterimage._literal(column) }}), false)
                        then struct({{ value }} as value, true as is_known)
                    when {{ is_real_end }} or arrived_by = 'key_change'
                        then struct(if(true, null, {{ value }}) as value, false as is_known)
                end,
                true
            ) over ({{ before }}) as value_{{ loop.index }}
            {%- endfor %}
        ) as held

    from {{ plan.events }}

),

carried as (

    select
        change_id,
        leaver.*

    from (
        select
            change_id,
            {%- if plan.trades %}
            -- If another row has already come to the key, the row that leaves is the one that the newcomer found there.
            if(
                is_earlier_row,
                last(if(arrived_by is not null, held, null), true) over ({{ before }}),
                held
            ) as leaver,
            {%- else %}
            held as leaver,
            {%- endif %}
            ended_by,
            unknown_columns

        from held_values
    ) as leavers
    where {{ afterimage._lacks_values('ended_by') }}

)
{%- endmacro -%}


{#- The condition that an event belongs to a key change that lacks columns; `ended_by` for departures. -#}
{%- macro _lacks_values(side, prefix='') -%}
    {#- array_max skips NULLs. -#}
    {{ return(side ~ " = 'key_change' and array_max(" ~ prefix ~ 'unknown_columns) is not null') }}
{%- endmacro -%}


{#- A query that looks up values still unknown at the key where the row was before. -#}
{%- macro _carried_from_earlier_keys(carried, plan) -%}
select
    later.change_id,
    earlier.carried_by
    {%- for column in plan.sparse %}
    {%- set value = 'value_' ~ loop.index %},
    if(later.{{ value }}.is_known or later.carried_by is null, later.{{ value }}, earlier.{{ value }}) as {{ value }}
    {%- endfor %}

from {{ carried }} as later
left outer join {{ carried }} as earlier
    on later.carried_by = earlier.change_id
{%- endmacro -%}


{#- Follows rows through all their key changes, however many, and keeps the values in tables beside the history
    until the run ends. Returns the last of these tables; none if no row took values with it. Each step follows twice
    as many key changes as the one before. With `rebuilt` (see _rebuild_scope) it starts at those places: the history
    holds what the rows had carried by then. -#}
{%- macro _follow_rows(target_relation, stream, columns, options, facts, rebuilt=none) -%}
    {%- if not facts.carries -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set plan = afterimage._event_plan(
        options.unique_key, afterimage._column_types(columns), facts, rebuilt is not none
    ) -%}
    {%- set old_keys -%}
        select {{ afterimage._quoted(options.unique_key, '`before`.') | join(', ') }}
        from {{ stream }} as moves
        where reject_reason is null and {{ afterimage._is_sparse_move(options.unique_key) }}
    {%- endset -%}
    {%- set is_open = ['false'] -%}
    {%- for column in plan.sparse -%}
        {%- do is_open.append('not coalesce(value_' ~ loop.index ~ '.is_known, false)') -%}
    {%- endfor -%}
    {%- set followed = namespace(query=none, carried=none, is_done=false) -%}
    {%- set followed.query -%}
        with

        {{ afterimage._all_events(
            stream, options.unique_key, names, plan, rebuilt, of_keys=old_keys if rebuilt is none else none
        ) }},

        {{ afterimage._carried_values(plan) }}

        select * from carried
    {%- endset -%}
    {#- This allows 2 to the power of 40 key changes. -#}
    {%- for step in range(40) if not followed.is_done -%}
        {%- set table = afterimage._scratch_table(target_relation, 'carried_' ~ step, followed.query) -%}
        {%- do afterimage._drop_scratch_tables([followed.carried]) -%}
        {%- set followed.carried = table -%}
        {%- set open_rows = afterimage._value(
            'select count(*) from ' ~ table ~ ' where carried_by is not null and (' ~ is_open | join(' or ') ~ ')'
        ) -%}
        {%- set followed.is_done = open_rows == 0 -%}
        {%- set followed.query = afterimage._carried_from_earlier_keys(table, plan) -%}
    {%- endfor -%}
    {{ return(followed.carried) }}
{%- endmacro -%}
