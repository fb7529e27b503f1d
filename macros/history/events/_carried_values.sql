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
