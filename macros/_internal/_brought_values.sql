{#- The columns that a row takes with it to a new key, where the update that changed the key did not capture them.

    The CTEs from `events` (a CTE's name) to `complete_events`, in which these columns have their values. A row may
    change its key again and again without the column, so its value is looked for at the key before, and so on, `hops`
    times at the most; what is not found is NULL. -#}
{%- macro _brought_values(events, keys, columns, sparse, trades, hops, is_recut, names_user) -%}
{%- set before = afterimage._event_window(keys) ~ ' rows between unbounded preceding and 1 preceding' -%}
{%- set is_real_end = 'not is_row' ~ (' and not is_of_an_earlier_row' if trades else '') -%}
{#- array_max skips NULLs. -#}
{%- set lacks_values = "by = 'key_change' and array_max(unknown_columns) is not null" -%}
{%- set event_columns = keys + [
    'change_seq', 'event_rank', 'load_time', 'change_id', 'operation', 'ended_by', 'is_row', 'image', 'unknown_columns',
    'arrived_by', 'before_image', 'changed_at', 'transaction_id'
] + (['changed_by'] if names_user else []) + (['start_seq', 'is_known', 'version_base'] if is_recut else []) -%}
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
            {%- for column in sparse %},
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

    from {{ events }}

),

brought_0 as (

    select
        change_id,
        leaver.*

    from (
        select
            change_id,
            {%- if trades %}
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
    where ended_{{ lacks_values }}

)
{%- for hop in range(1, hops) %},

brought_{{ hop }} as (

    select
        later.change_id,
        earlier.brought_by
        {%- for column in sparse %}
        {%- set value = 'value_' ~ loop.index %},
        if(later.{{ value }}.is_known or later.brought_by is null, later.{{ value }}, earlier.{{ value }}) as {{ value }}
        {%- endfor %}

    from brought_{{ hop - 1 }} as later
    left outer join brought_0 as earlier
        on later.brought_by = earlier.change_id

)
{%- endfor %},

-- Apart from the others, so that few rows are joined.
complete_events as (

    select {{ event_columns | join(', ') }}
    from {{ events }}
    where
        not coalesce(arrived_{{ lacks_values }}, false)
        {{- '\n        and not is_of_an_earlier_row' if trades }}
    union all
    select
        {%- for name in event_columns %}
        {%- if name == 'image' %}
        named_struct(
            {%- for column in columns %}
            {%- set name = afterimage._quote(column) %}
            {{ afterimage._literal(column) }},
            {%- if column in sparse %}
            if(
                array_contains(given.unknown_columns, {{ afterimage._literal(column) }}),
                brought.value_{{ sparse.index(column) + 1 }}.value,
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

    from {{ events }} as given
    inner join brought_{{ hops - 1 }} as brought
        on given.change_id = brought.change_id
    where given.arrived_{{ lacks_values | replace('unknown_columns', 'given.unknown_columns') }}

)
{%- endmacro -%}
