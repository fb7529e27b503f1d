{#- A query for the keys at which, in one transaction, a row arrived and afterwards a row ended. Rows may have taken
    each other's keys there. One row per key and transaction, with `first_arrival`, the change_seq. -#}
{%- macro _key_trades(stream, unique_key, condition='true') -%}
select
    {{ afterimage._each(unique_key, 'touch.{key}') | join(', ') }},
    transaction_id,
    min(touch.arrival) as first_arrival

from (
    select
        transaction_id,
        explode(array(
            {%- for image, is_touched, arrival, end in [
                ('`after`', "operation <> 'delete'", 'change_seq', 'cast(null as string)'),
                ('`before`', "operation <> 'insert'", 'cast(null as string)', 'change_seq'),
            ] %}
            if({{ is_touched }}, struct(
                {{ afterimage._each(unique_key, image ~ '.{column} as {key}') | join(', ') }},
                {{ arrival }} as arrival,
                {{ end }} as `end`
            ), null){{ ',' if not loop.last }}
            {%- endfor %}
        )) as touch

    from {{ stream }} as changes
    where
        reject_reason is null
        and transaction_id is not null
        and (operation in ('insert', 'delete') or {{ afterimage._changes_key(unique_key) }})
        and ({{ condition }})
) as touches
where touch is not null
group by {{ afterimage._each(unique_key, 'touch.{key}') | join(', ') }}, transaction_id
having min(touch.arrival) <= max(touch.`end`)
{%- endmacro -%}
