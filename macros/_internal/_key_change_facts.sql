{#- The `facts` for _key_events, of a stream as it is now. None where the SQL may be kept and run later over other rows
    (in a view), or where the stream is a text. -#}
{%- macro _key_change_facts(changes, unique_key) -%}
    {%- set is_run_at_once = model.resource_type == 'test'
        or model.config.materialized in ['table', 'incremental', 'change_stream'] -%}
    {%- if changes is string or not is_run_at_once -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set options = {'unique_key': unique_key, 'load_valid_from': 'current_timestamp()'} -%}
    {%- set found = afterimage._pending_changes(changes, none, options) -%}
    {{ return({
        'trades': found.ends > 0 and afterimage._trading_keys(changes, unique_key) > 0,
        'carries': found.sparse_moves > 0,
        'truncates': found.truncates > 0,
        'sparse_columns': found.sparse_columns,
    }) }}
{%- endmacro -%}


{#- The condition that a change ends a row at its key, by a name that says which transaction did. -#}
{%- macro _ends_a_row_of_a_transaction(unique_key) -%}
    {{ return(
        "(transaction_id is not null and (operation = 'delete' or (" ~ afterimage._changes_the_key(unique_key) ~ ')))'
    ) }}
{%- endmacro -%}


{#- The condition that a change gave a row another key and did not capture all its columns. (Its before-image may; to
    look for that in each column costs more than it spares.) -#}
{%- macro _is_sparse_move(unique_key) -%}
    {{ return('(size(absent_columns) > 0 and ' ~ afterimage._changes_the_key(unique_key) ~ ')') }}
{%- endmacro -%}


{#- A query for the keys at which a row arrived and a row ended in one transaction, in this order: where rows may have
    taken each other's keys. One row a key and transaction, with `first_arrival`, the change_seq. -#}
{%- macro _key_trades(stream, unique_key, condition='true') -%}
{%- set keys = afterimage._key_names(unique_key) -%}
select
    {%- for key in keys %}
    touch.{{ key }},
    {%- endfor %}
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
                {%- for key in unique_key %}
                {{ image }}.{{ afterimage._quote(key) }} as {{ keys[loop.index0] }},
                {%- endfor %}
                {{ arrival }} as arrival,
                {{ end }} as `end`
            ), null){{ ',' if not loop.last }}
            {%- endfor %}
        )) as touch

    from {{ stream }} as changes
    where
        reject_reason is null
        and transaction_id is not null
        and (operation in ('insert', 'delete') or {{ afterimage._changes_the_key(unique_key) }})
        and ({{ condition }})
) as touches
where touch is not null
group by {% for key in keys %}touch.{{ key }}, {% endfor %}transaction_id
having min(touch.arrival) <= max(touch.`end`)
{%- endmacro -%}


{%- macro _trading_keys(stream, unique_key, condition='true') -%}
    {%- set trades = afterimage._key_trades(stream, unique_key, condition) -%}
    {%- set query = 'select count(*) from (' ~ trades ~ ') as key_trades' -%}
    {{ return(run_query(query).columns[0].values()[0]) }}
{%- endmacro -%}
