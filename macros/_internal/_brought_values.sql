{#- The columns that a row takes with it to a new key, where the update that changed the key did not capture them. Their
    values are looked for at the old key. Where the row came there without them too, they are looked for at the key
    before, and so on. -#}

{#- The CTE `complete_events`, in which such columns have their values: of the table `plan.brought`, or else as far as
    SQL alone can follow a row, through two key changes. What is not found is NULL. -#}
{%- macro _complete_events(plan, columns) -%}
{%- set event_columns = plan.key_names + [
    'change_seq', 'event_rank', 'load_time', 'change_id', 'operation', 'ended_by', 'is_row', 'image', 'unknown_columns',
    'arrived_by', 'before_image', 'changed_at', 'transaction_id'
] + (['changed_by'] if plan.names_user else [])
    + (['start_seq', 'is_known', 'version_base'] if plan.is_recut else []) -%}
{%- if not plan.brought -%}
{{ afterimage._brought_values(plan) }},

brought_values as (

    {{ afterimage._brought_from_further('brought', plan) | indent(4) }}

),

{% endif -%}
-- Apart from the others, so that few rows are joined.
complete_events as (

    select {{ event_columns | join(', ') }}
    from {{ plan.events }}
    where
        not coalesce({{ afterimage._lacks_values('arrived_by') }}, false)
        {{- '\n        and not is_of_an_earlier_row' if plan.trades }}
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
                brought.value_{{ plan.sparse.index(column) + 1 }}.value,
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
    inner join {{ plan.brought or 'brought_values' }} as brought
        on given.change_id = brought.change_id
    where {{ afterimage._lacks_values('given.arrived_by', 'given.') }}

)
{%- endmacro -%}


{#- The condition on events that they are of a key change that lacks columns; `ended_by` for departures. -#}
{%- macro _lacks_values(side, prefix='') -%}
    {#- array_max skips NULLs. -#}
    {{ return(side ~ " = 'key_change' and array_max(" ~ prefix ~ 'unknown_columns) is not null') }}
{%- endmacro -%}


{#- The CTEs from all events to `brought`, one row a key change that lacks columns: `change_id`, for the n-th of the
    sparse columns `value_n`, a struct of the value and whether it is known, and `brought_by`, the key change that had
    brought the row to the old key. -#}
{%- macro _brought_values(plan) -%}
{%- set before = afterimage._event_window(plan.key_names) ~ ' rows between unbounded preceding and 1 preceding' -%}
{%- set is_real_end = 'not is_row' ~ (' and not is_of_an_earlier_row' if plan.trades else '') -%}
-- What is known of the row at the key just before each event. An end leaves nothing behind; a row that comes from
-- another key has what was captured then, and for the rest the change that brought it.
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
            ) over ({{ before }}).change_id as brought_by
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

brought as (

    select
        change_id,
        leaver.*

    from (
        select
            change_id,
            {%- if plan.trades %}
            -- Where another row has come to the key already, the one that leaves is the one that it found there.
            if(
                is_of_an_earlier_row,
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


{#- A query that looks for the values that are not known yet where the row was before. -#}
{%- macro _brought_from_further(brought, plan) -%}
select
    later.change_id,
    earlier.brought_by
    {%- for column in plan.sparse %}
    {%- set value = 'value_' ~ loop.index %},
    if(later.{{ value }}.is_known or later.brought_by is null, later.{{ value }}, earlier.{{ value }}) as {{ value }}
    {%- endfor %}

from {{ brought }} as later
left outer join {{ brought }} as earlier
    on later.brought_by = earlier.change_id
{%- endmacro -%}


{#- Follows rows through all their key changes, however many, and keeps the values in tables beside the history until
    the run ends; returns the last. Each step follows twice as many key changes as the one before. -#}
{%- macro _follow_rows(target_relation, stream, columns, options, facts) -%}
    {%- set plan = afterimage._event_plan(options.unique_key, columns | map(attribute='name') | list, facts) -%}
    {%- set old_keys -%}
        select
            {%- for key in options.unique_key %}
            `before`.{{ afterimage._quote(key) }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ stream }} as moves
        where reject_reason is null and {{ afterimage._is_sparse_move(options.unique_key) }}
    {%- endset -%}
    {%- set is_open = ['false'] -%}
    {%- for column in plan.sparse -%}
        {%- do is_open.append('not coalesce(value_' ~ loop.index ~ '.is_known, false)') -%}
    {%- endfor -%}
    {%- set followed = namespace(query=none, brought=none, is_done=false) -%}
    {%- set followed.query -%}
        with

        {{ afterimage._all_events(
            stream, options.unique_key, columns | map(attribute='name') | list, options.load_valid_from, plan,
            of_keys=old_keys
        ) }},

        {{ afterimage._brought_values(plan) }}

        select * from brought
    {%- endset -%}
    {#- 2 to the power of 40 key changes are enough. -#}
    {%- for step in range(40) if not followed.is_done -%}
        {%- set table = afterimage._scratch_table(target_relation, 'brought_' ~ step, followed.query) -%}
        {%- do afterimage._drop_scratch_tables([followed.brought]) -%}
        {%- set followed.brought = table -%}
        {%- set open_rows = run_query(
            'select count(*) from ' ~ table ~ ' where brought_by is not null and (' ~ is_open | join(' or ') ~ ')'
        ).columns[0].values()[0] -%}
        {%- set followed.is_done = open_rows == 0 -%}
        {%- set followed.query = afterimage._brought_from_further(table, plan) -%}
    {%- endfor -%}
    {{ return(followed.brought) }}
{%- endmacro -%}
