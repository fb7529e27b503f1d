{#- The `facts` for _key_events, for a stream as it is now. None if the SQL may be kept and run later over other
    rows (in a view), or if the stream is a text. -#}
{%- macro _key_change_facts(changes, unique_key) -%}
    {%- set is_run_at_once = model.resource_type == 'test'
        or model.config.materialized in ['table', 'incremental', 'change_stream'] -%}
    {%- if changes is string or not is_run_at_once -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set options = {'unique_key': unique_key, 'load_valid_from': 'current_timestamp()'} -%}
    {{ return(afterimage._remember(none, afterimage._whole_stream(changes, options))) }}
{%- endmacro -%}


{#- A summary of all changes of a stream, and whether rows may take each other's keys. -#}
{%- macro _whole_stream(stream, options) -%}
    {%- set found = afterimage._pending_changes(stream, none, options) -%}
    {{ return(dict(found, trades=found.ends > 0 and afterimage._trading_keys(stream, options.unique_key) > 0)) }}
{%- endmacro -%}


{#- A summary of the changes that a condition selects: one row, whatever their number. -#}
{%- macro _pending_changes(stream, condition, options) -%}
    {%- set ends_row = afterimage._ends_row_in_transaction(options.unique_key) -%}
    {%- set aggregates = {
        'changes': 'count(*)',
        'max_seq': 'max(change_seq)',
        'min_time': 'unix_micros(min(coalesce(changed_at, ' ~ options.load_valid_from ~ ')))',
        'truncates': "count_if(operation = 'truncate')",
        'ends': 'count_if(reject_reason is null and ' ~ ends_row ~ ')',
        'first_ender': 'min(if(' ~ ends_row ~ ', transaction_id, null))',
        'last_ender': 'max(if(' ~ ends_row ~ ', transaction_id, null))',
        'sparse_moves': 'count_if(reject_reason is null and ' ~ afterimage._is_sparse_move(options.unique_key) ~ ')',
        'movable': 'count_if(' ~ afterimage._has_movable_place('change_seq') ~ ')',
        'sparse_columns': 'array_distinct(flatten(collect_set(absent_columns)))',
        'runs': 'sort_array(collect_set(unix_micros(ingested_at)))',
    } -%}
    {%- if condition -%}
        {%- do aggregates.update({
            'min_seq': 'min(' ~ afterimage._shared_place('change_seq') ~ ')',
            'min_rejected_seq': 'min(change_seq) filter (where reject_reason is not null'
                ~ " and (`before` is not null or `after` is not null or operation = 'truncate'))",
        }) -%}
    {%- endif -%}
    {{ return(afterimage._summary(stream ~ ' as changes where ' ~ (condition or 'true'), aggregates)) }}
{%- endmacro -%}


{#- What the table remembers of the changes that it has taken in.

    Which changes: all up to `until` (microseconds of `ingested_at`), and those of the later `runs`. The runs of the
    last day are kept one by one, because a staging run that began earlier may commit later than another.

    What they hold: the last place, whether the source table was ever truncated, which columns were ever absent,
    whether rows may have taken each other's keys, and whether a key change ever lacked a column. (A table built by
    an earlier release does not say the last two; they count as true.) -#}
{%- macro _remember(taken_in, pending) -%}
    {%- set day = 24 * 60 * 60 * 1000000 -%}
    {#- A sample (`--sample`) leaves changes out, so the next run reads its runs again. -#}
    {%- set new_runs = [] if invocation_args_dict.sample else pending.runs -%}
    {%- set known = taken_in or {
        'until': 0, 'runs': [], 'max_seq': '', 'truncates': false, 'trades': false, 'carries': false,
        'sparse_columns': [],
    } -%}
    {%- set runs = (known.runs + new_runs) | unique | sort | list -%}
    {#- A time in the future must not hide the runs until then. -#}
    {%- set now = (run_started_at.timestamp() * 1000000) | int -%}
    {%- set newest = [runs[-1] if runs else 0, now] | min -%}
    {%- set oldest_kept = runs[-1000] if runs | length > 1000 else 0 -%}
    {%- set until = [known.until, newest - day, oldest_kept] | max -%}
    {#- Jinja ignores case by default, but columns and places differ by case. -#}
    {%- set sparse = known.sparse_columns + pending.sparse_columns -%}
    {{ return({
        'until': until,
        'runs': runs | select('gt', until) | list,
        'max_seq': [known.max_seq, pending.max_seq or ''] | max(case_sensitive=true),
        'truncates': known.truncates or pending.truncates > 0,
        'trades': known.get('trades', true) or pending.trades,
        'carries': known.get('carries', true) or pending.sparse_moves > 0,
        'sparse_columns': sparse | unique(case_sensitive=true) | sort(case_sensitive=true) | list,
    }) }}
{%- endmacro -%}
