{#- Rows that take each other's keys within a transaction (`update t set id = id + 1`, a swap): a row comes to a key
    before the row that lived there has left it. The row that leaves then is the earlier one, and the key lives on.

    The CTEs from `events` to `classified_events`, which adds `is_earlier_row`. An end belongs to an earlier row
    if the key's last row arrived (by an insert, or from another key) in the same transaction, and the before-image
    shows a row other than that. If it could be either, the end belongs to an earlier row if it directly follows the
    arrival, the key was taken then, and the row that the arrival found there looks alike.

    Once the row that arrived was updated, the statement that brought it is over, and the end is its own. Its
    before-image may still show another row: PostgreSQL has defaults there. -#}
{%- macro _ends_of_earlier_rows(keys, types, trading=none) -%}
{%- set w = afterimage._event_window(keys) -%}
{%- set before = w ~ ' rows between unbounded preceding and 1 preceding' -%}
{%- set meets_arrival = "coalesce(ended_by in ('delete', 'key_change') and last_row.has_arrived and "
    ~ afterimage._are_of_one_transaction('last_row.', '') ~ ', false)' -%}
{#- Spark works out what occurs twice before all else, for every row, even behind an `and`, but not within an `if`. To
    compare two rows takes long, and few need it. -#}
{%- set shows_other_row -%}
if(
            {{ meets_arrival }},
            {{ afterimage._contradicts('last_row', types) | indent(12) }},
            false
        )
{%- endset -%}
{%- set may_end_arrival = meets_arrival ~ ' and not ' ~ shows_other_row -%}
looking_back as (

    select
        *,
        last(
            if(
                is_row
                {%- if trading %}
                -- Windows copy what they look at, and other keys have no use for it.
                and {{ afterimage._hash_of_values(keys) | indent(16) }} in ({{ trading | join(', ') }})
                {%- endif %},
                struct(transaction_id, changed_at, image, unknown_columns, arrived_by is not null as has_arrived),
                null
            ),
            true
        ) over ({{ before }}) as last_row

    from events

),

compared_events as (

    select
        *,
        {{ shows_other_row }} as shows_other_row,
        -- At an end directly behind an arrival: the last row before that arrival.
        lag(last_row) over ({{ w }}) as found_row,
        coalesce(lag(arrived_by is not null) over ({{ w }}), false) and {{ may_end_arrival }} as is_behind_arrival,
        arrived_by is not null and coalesce(lead({{ may_end_arrival }}) over ({{ w }}), false) as is_before_end

    from looking_back

),

undecided_events as (

    select
        *,
        if(
            is_behind_arrival, not {{ afterimage._contradicts('found_row', types) | indent(12) }}, false
        ) as may_be_of_either

    from compared_events

),

-- Whether the key was taken when a row came, judged by the last row or end before. An arrival with an end directly
-- after it leaves the key as they found it, so both are left out. Only an end that cannot be the found row's is the
-- arrival's own for certain: nothing lives at the key then. Ends that show another row are left out too.
taken_keys as (

    select
        *,
        last(if(may_be_of_either or is_before_end or shows_other_row, null, is_row), true) over ({{ before }}) as is_taken

    from undecided_events

),

classified_events as (

    select
        *,
        shows_other_row or (may_be_of_either and coalesce(is_taken, false)) as is_earlier_row

    from taken_keys

)
{%- endmacro -%}
