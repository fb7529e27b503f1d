{#- What is known of a stream, so that needless steps can be left out:
    - `sparse_columns`: which columns are ever absent, as `absent_columns` spells them; none if any may be,
    - `truncates`: whether the table was ever truncated,
    - `trades`: whether rows may take each other's keys; `trading`: the hashes of all keys where they do, if these are few,
    - `carries`: whether rows take values along to another key; `carried`: the table of these values, if there is one,
    - `moves`: whether any change gave its row another key. -#}
{%- macro _facts(sparse_columns, truncates, trades, carries, carried=none, trading=none, moves=false) -%}
    {{ return({
        'sparse_columns': sparse_columns, 'truncates': truncates, 'trades': trades, 'carries': carries, 'carried': carried,
        'trading': trading, 'moves': moves,
    }) }}
{%- endmacro -%}


{#- The facts of all changes that a table remembers, see _remember. `pending` is their summary, if they were all just
    read. -#}
{%- macro _facts_of(remembered, carried=none, pending={}) -%}
    {{ return(afterimage._facts(
        remembered.sparse_columns, remembered.truncates, remembered.trades, remembered.carries, carried,
        pending.get('trading'), remembered.moves
    )) }}
{%- endmacro -%}


{#- The facts of a stream as it is now. None if the SQL may be kept and run later over other
    rows (in a view), or if the stream is a text. -#}
{%- macro _key_change_facts(changes, unique_key) -%}
    {%- set is_run_at_once = model.resource_type == 'test'
        or model.config.materialized in ['table', 'incremental', 'change_stream'] -%}
    {%- if changes is string or not is_run_at_once -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set options = {'unique_key': unique_key, 'load_valid_from': 'current_timestamp()'} -%}
    {%- set pending = afterimage._pending_changes(changes, none, options) -%}
    {{ return(afterimage._facts_of(afterimage._remember_all(changes, options, pending), pending=pending)) }}
{%- endmacro -%}


{#- A summary of the changes that a condition selects: one row, whatever their number.
    - `changes`: how many, `max_seq`, `min_time`: their last place and first time,
    - `truncates`, `ends`, `moves`, `sparse_moves`: how many are truncations, end a row in a known transaction, gave a row
      another key, and did so without all its columns; `first_ender`, `last_ender`: the transactions of the ends,
    - `unknown`: how many have none of our operations, such as `unknown_operation`,
    - `movable`: how many may be at another place later,
    - `sparse_columns`: which columns are absent in any,
    - `runs`: the runs that staged them; `is_time_of_reading`: whether the last of these is this very query,
    - `min_seq`, `min_rejected_seq`: the first place, and the first of a rejected change that may have been good before;
      `last_tied`: the last of those that come behind others of their place. Only with a condition. -#}
{%- macro _pending_changes(stream, condition, options) -%}
    {%- set ends_row = afterimage._ends_row_in_transaction(options.unique_key) -%}
    {%- set is_unknown -%}
        (reject_reason is null and not coalesce(operation in ('load', 'insert', 'update', 'delete', 'truncate'), false))
    {%- endset -%}
    {%- set aggregates = {
        'changes': 'count(*)',
        'max_seq': 'max(change_seq)',
        'min_time': 'unix_micros(min(coalesce(changed_at, ' ~ options.load_valid_from ~ ')))',
        'truncates': "count_if(operation = 'truncate')",
        'unknown': 'count_if(' ~ is_unknown ~ ')',
        'unknown_operation': 'min(if(' ~ is_unknown ~ ", coalesce(operation, 'NULL'), null))",
        'ends': 'count_if(reject_reason is null and ' ~ ends_row ~ ')',
        'first_ender': 'min(if(' ~ ends_row ~ ', transaction_id, null))',
        'last_ender': 'max(if(' ~ ends_row ~ ', transaction_id, null))',
        'moves': 'count_if(reject_reason is null and ' ~ afterimage._changes_key(options.unique_key) ~ ')',
        'sparse_moves': 'count_if(reject_reason is null and ' ~ afterimage._is_sparse_move(options.unique_key) ~ ')',
        'movable': 'count_if(' ~ afterimage._has_movable_place('change_seq') ~ ')',
        'sparse_columns': 'array_distinct(flatten(collect_set(absent_columns)))',
        'runs': 'sort_array(collect_set(unix_micros(ingested_at)))',
        'is_time_of_reading': 'max(unix_micros(ingested_at)) = unix_micros(current_timestamp())',
    } -%}
    {%- if condition -%}
        {%- do aggregates.update({
            'min_seq': 'min(' ~ afterimage._shared_place('change_seq') ~ ')',
            'last_tied': 'max(if(change_seq <> ' ~ afterimage._shared_place('change_seq') ~ ', change_seq, null))',
            'min_rejected_seq': 'min(change_seq) filter (where reject_reason is not null'
                ~ " and (`before` is not null or `after` is not null or operation = 'truncate'))",
        }) -%}
    {%- endif -%}
    {{ return(afterimage._summary(stream ~ ' as changes where ' ~ (condition or 'true'), aggregates)) }}
{%- endmacro -%}


{#- What a table remembers that has taken in a whole stream; `pending` is the summary of all its changes. It gets
    `trading`, see _facts. -#}
{%- macro _remember_all(stream, options, pending) -%}
    {%- set trading = afterimage._trading_keys(stream, options.unique_key) if pending.ends > 0 else [] -%}
    {%- do pending.update({'trading': trading if trading | length <= 1000 else none}) -%}
    {{ return(afterimage._remember(none, pending, trading | length > 0, pending.sparse_moves > 0)) }}
{%- endmacro -%}


{#- What a table remembers of the changes that it has taken in:
    - `until`: all changes up to this time of `ingested_at` (microseconds), and `runs`: those of these later runs. The runs
      of the last day are kept one by one, because a staging run that began earlier may commit later than another. A
      thousand is the most, so that statements stay short (docs/operations/troubleshooting.md names that limit),
    - `max_seq`: the last place,
    - `truncates`, `trades`, `carries`, `moves`, `sparse_columns`: the facts of all of them, see _facts. (A table built by
      an earlier release does not say `trades`, `carries` and `moves`; they count as true.) -#}
{%- macro _remember(taken_in, pending, trades, carries) -%}
    {%- set day = 24 * 60 * 60 * 1000000 -%}
    {#- A sample (`--sample`) leaves changes out, so the next run reads its runs again. -#}
    {%- set new_runs = [] if invocation_args_dict.sample else pending.runs -%}
    {%- set known = taken_in or {
        'until': 0, 'runs': [], 'max_seq': '', 'truncates': false, 'trades': false, 'carries': false,
        'moves': false, 'sparse_columns': [],
    } -%}
    {%- set runs = (known.runs + new_runs) | unique | sort | list -%}
    {#- A time in the future must not hide the runs until then. -#}
    {%- set now = (run_started_at.timestamp() * 1000000) | int -%}
    {%- set newest = [runs[-1] if runs else 0, now] | min -%}
    {%- set oldest_kept = runs[-1000] if runs | length > 1000 else 0 -%}
    {%- set until = [afterimage._known_until(known), newest - day, oldest_kept] | max -%}
    {#- Jinja ignores case by default, but columns and places differ by case. -#}
    {%- set sparse = known.sparse_columns + pending.sparse_columns -%}
    {{ return({
        'until': until,
        'runs': runs | select('gt', until) | list,
        'max_seq': [known.max_seq, pending.max_seq or ''] | max(case_sensitive=true),
        'truncates': known.truncates or pending.truncates > 0,
        'trades': known.get('trades', true) or trades,
        'carries': known.get('carries', true) or carries,
        'moves': known.get('moves', true) or pending.moves > 0,
        'sparse_columns': sparse | unique(case_sensitive=true) | sort(case_sensitive=true) | list,
    }) }}
{%- endmacro -%}


{#- The time up to which a table has taken in all changes. After a run whose clock was ahead nobody knows it: another
    model of the stream may have staged something at an earlier time since. -#}
{%- macro _known_until(taken_in) -%}
    {%- set now = (run_started_at.timestamp() * 1000000) | int -%}
    {{ return(taken_in.until if taken_in.until <= now else 0) }}
{%- endmacro -%}


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


{#- The condition that a change ends a row at its key, in a known transaction. -#}
{%- macro _ends_row_in_transaction(unique_key) -%}
    {{ return(
        "(transaction_id is not null and (operation = 'delete' or (" ~ afterimage._changes_key(unique_key) ~ ')))'
    ) }}
{%- endmacro -%}


{#- The hashes of the keys that _key_trades finds, a thousand and one at the most. -#}
{%- macro _trading_keys(stream, unique_key, condition='true') -%}
    {%- set hashes -%}
        select distinct {{ afterimage._hash_of_values(afterimage._key_names(unique_key)) | indent(8) }} as key_hash
        from ({{ afterimage._key_trades(stream, unique_key, condition) }}) as key_trades
        limit 1001
    {%- endset -%}
    {{ return(run_query(hashes).columns[0].values() | list) }}
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
