{#- The condition that a change gave its row another key. -#}
{%- macro _changes_key(unique_key) -%}
    {{ return(
        "operation = 'update' and `before` is not null and not ("
        ~ afterimage._same_columns('`before`', '`after`', unique_key) ~ ')'
    ) }}
{%- endmacro -%}


{#- The condition that a change gave a row another key without capturing all its columns. (Its before-image may have
    them; checking that in each column costs more than it saves.) -#}
{%- macro _is_sparse_move(unique_key) -%}
    {{ return('(size(absent_columns) > 0 and ' ~ afterimage._changes_key(unique_key) ~ ')') }}
{%- endmacro -%}


{#- The condition that a change ends a row at its key; the name says that the transaction is known. -#}
{%- macro _ends_row_in_transaction(unique_key) -%}
    {{ return(
        "(transaction_id is not null and (operation = 'delete' or (" ~ afterimage._changes_key(unique_key) ~ ')))'
    ) }}
{%- endmacro -%}


{%- macro _trading_keys(stream, unique_key, condition='true') -%}
    {%- set trades = afterimage._key_trades(stream, unique_key, condition) -%}
    {{ return(afterimage._value('select count(*) from (' ~ trades ~ ') as key_trades')) }}
{%- endmacro -%}


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
