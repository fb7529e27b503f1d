{#- The condition on the stream that selects the changes which the table has not taken in. -#}
{%- macro _pending_condition(taken_in) -%}
    {#- The condition lists the gaps between the runs. With `not in`, files that hold a single run would not be
        skipped. -#}
    {%- set gaps = [] -%}
    {%- for run in [afterimage._known_until(taken_in)] + taken_in.runs -%}
        {%- do gaps.append(
            'ingested_at > timestamp_micros(' ~ run ~ ')'
            ~ (' and ingested_at < timestamp_micros(' ~ loop.nextitem ~ ')' if not loop.last)
        ) -%}
    {%- endfor -%}
    {{ return('(ingested_at is null or (' ~ gaps | join(') or (') ~ '))') }}
{%- endmacro -%}


{#- The changes of the runs that the first query found: what a staging run commits later is left to the next run.
    Written so that files can be skipped. -#}
{%- macro _runs_condition(pending) -%}
    {{ return(
        '(ingested_at is null or ingested_at in (timestamp_micros('
        ~ ((pending.runs or [0]) | join('), timestamp_micros(')) ~ ')))'
    ) }}
{%- endmacro -%}


{#- What a run needs to know about key changes from the first new place on. `trades`: whether rows may have taken each
    other's keys. `carries`: whether rows took values along to another key. `needs_all`: whether keys must be rebuilt from
    their first change. They must if

    - a transaction in which rows traded keys began before the place from which its key is rebuilt; a truncation has
      keys of the history rebuilt that no change of the run names,
    - the history knows only part of the row that lived at the key, or
    - the run is late and a later key change lacks columns: their values come from the old key, and go on from there
      to keys that the run does not touch. -#}
{%- macro _pending_key_changes(target_relation, stream, columns, options, taken_in, condition, pending) -%}
    {%- set is_late = pending.min_seq <= taken_in.max_seq -%}
    {%- set slice = afterimage._slice(pending, options) -%}
    {#- The ends of earlier rows count for no time. Where a clock was set back, the slice has those of earlier runs. -#}
    {%- set may_meet_trades = is_late or taken_in.get('trades', true) -%}
    {%- set seen = afterimage._pending_changes(stream, slice, options) if may_meet_trades else pending -%}
    {%- set key_changes = {
        'trades': false,
        'carries': seen.sparse_moves > 0,
        'needs_all': is_late and seen.sparse_moves > 0,
    } -%}
    {%- if not seen.ends -%}
        {{ return(key_changes) }}
    {%- endif -%}
    {%- set plan = afterimage._history_plan(options, columns | map(attribute='name') | list) -%}
    {%- set is_partly_known =
        plan.untracked | length > 0 or taken_in.sparse_columns | length > 0 or pending.sparse_columns | length > 0
    -%}
    {%- set keys = afterimage._key_names(options.unique_key) -%}
    {%- set meets_slice -%}
        {{ slice }} or transaction_id between {{ afterimage._literal(seen.first_ender) }}
        and {{ afterimage._literal(seen.last_ender) }}
    {%- endset -%}
    {#- Rows rarely take each other's keys, and this check is quicker than working out the consequences. -#}
    {%- if not afterimage._trading_keys(stream, options.unique_key, meets_slice) -%}
        {{ return(key_changes) }}
    {%- endif -%}
    {%- set query -%}
        select
            coalesce(max(
                key_trades.first_arrival < starts.start_seq
                {%- if is_partly_known %}
                or (starts.start_seq is not null and known.{{ plan.meta.history_id }} is not null)
                {%- endif %}
            ), false) as needs_all

        from ({{ afterimage._key_trades(stream, options.unique_key, meets_slice) }}) as key_trades
        left outer join (
            select
                {{ keys | join(', ') }},
                min({{ afterimage._shared_place('change_seq') }}) as start_seq

            from ({{ afterimage._touched_keys(stream, options.unique_key, condition) }}) as touched
            group by {{ keys | join(', ') }}
        ) as starts
            on {{ afterimage._each(options.unique_key, 'key_trades.{key} <=> starts.{key}') | join(' and ') }}
        {%- if is_partly_known %}
        left outer join {{ target_relation }} as known
            on
                {{ afterimage._each(options.unique_key, 'key_trades.{key} <=> known.{column}') | join(' and ') }}
                and known.{{ plan.meta.valid_from_seq }} <= key_trades.first_arrival
                and (
                    known.{{ plan.meta.valid_to_seq }} is null
                    or known.{{ plan.meta.valid_to_seq }} >= {{ afterimage._literal(pending.min_seq) }}
                )
        {%- endif %}
    {%- endset -%}
    {%- set needs_all = run_query(query).rows[0][0] -%}
    {{ return(dict(
        key_changes, trades=true, needs_all=key_changes.needs_all or needs_all or pending.truncates > 0
    )) }}
{%- endmacro -%}
