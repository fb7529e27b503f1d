{#- One incremental run of a history: see the materialization `history` for what it does, and _key_events for how
    the versions of some keys are cut from a place on. -#}
{%- macro _update_history(target_relation, stream, options) -%}
    {%- set snapshot = afterimage._snapshot(target_relation) -%}
    {%- set taken_in = afterimage._checked_bookkeeping(target_relation, stream, options, snapshot) -%}
    {%- set columns = afterimage._checked_columns(target_relation, stream, options) -%}
    {%- set rebuild = afterimage._setting('afterimage_rebuild') -%}
    {%- set condition = rebuild or afterimage._pending_condition(taken_in) -%}
    {%- set pending = afterimage._pending_changes(stream, condition, options) -%}

    {%- if pending.changes == 0 -%}
        {%- call noop_statement('main', 'OK') -%} -- nothing new {%- endcall -%}
        {%- do log(model.name ~ ': nothing new', info=true) -%}
        {{ return(none) }}
    {%- endif -%}

    {%- set condition = condition if rebuild else afterimage._runs_condition(pending) -%}
    {%- do pending.update(afterimage._pending_key_changes(
        target_relation, stream, columns, options, taken_in, condition, pending
    )) -%}
    {%- set remembered = afterimage._remember(taken_in, pending) -%}
    {%- set recut = afterimage._recut_scope(
        target_relation, stream, columns, options, taken_in, remembered, condition, pending
    ) -%}
    {%- set facts = remembered if recut.from_the_beginning
        else dict(remembered, trades=pending.trades, carries=pending.sparse_moves > 0) -%}
    {%- if facts.carries -%}
        {%- set facts = dict(facts, brought=afterimage._follow_rows(
            target_relation, stream, columns, options, facts, none if recut.from_the_beginning else recut
        )) -%}
    {%- endif -%}
    {%- set difference = afterimage._apply_recut(
        target_relation, stream, columns, options, recut, facts, pending, snapshot
    ) -%}
    {%- if not rebuild -%}
        {%- do afterimage._remember_taken_in(target_relation, remembered) -%}
    {%- endif -%}
    {%- do afterimage._drop_scratch_tables([difference, recut.touched, facts.get('brought')]) -%}
    {%- do afterimage._compact_when_due(target_relation) -%}
{%- endmacro -%}


{#- The stream's columns; one that is new is added to the table, where earlier versions hold NULL. -#}
{%- macro _checked_columns(target_relation, stream, options) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- set meta = afterimage._meta_columns(
        options.macro_name, options.meta_column_names, columns | map(attribute='name') | list
    ) -%}
    {%- set ours = meta.values() | map('lower') | list -%}
    {%- set known = {} -%}
    {%- for column in afterimage._relation_columns(target_relation) -%}
        {%- if afterimage._quote(column.name) | lower not in ours -%}
            {%- do known.update({column.name | lower: column.type}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set place = namespace(after='first') -%}
    {%- for column in columns -%}
        {%- if column.name | lower not in known -%}
            {%- do run_query(
                'alter table ' ~ target_relation ~ ' add columns (' ~ afterimage._quote(column.name) ~ ' '
                ~ column.type ~ ' ' ~ place.after ~ ')'
            ) -%}
        {%- elif afterimage._stored_type(known[column.name | lower]) != afterimage._stored_type(column.type) -%}
            {%- do exceptions.raise_compiler_error(
                options.macro_name ~ ": the column `" ~ column.name ~ "` is " ~ known[column.name | lower]
                ~ " in " ~ target_relation ~ " and " ~ column.type ~ " in the stream. Run once with --full-refresh."
            ) -%}
        {%- endif -%}
        {%- set place.after = 'after ' ~ afterimage._quote(column.name) -%}
    {%- endfor -%}
    {%- for name in known -%}
        {%- if name not in columns | map(attribute='name') | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                options.macro_name ~ ": the stream no longer has the column `" ~ name ~ "` of " ~ target_relation
                ~ ". Run once with --full-refresh."
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro -%}


{#- The changes at or behind the first place that is new, and those that may bear on the times there: a condition in a
    form that leaves out files. Changes without a time are no matter where they are valid from long ago. -#}
{%- macro _slice(pending, options) -%}
    {{ return(
        "(change_seq >= " ~ afterimage._literal(pending.min_seq)
        ~ " or changed_at > timestamp_micros(" ~ pending.min_time ~ ")"
        ~ " or (changed_at is null and " ~ options.load_valid_from ~ " > timestamp_micros(" ~ pending.min_time ~ ")))"
    ) }}
{%- endmacro -%}


{#- What a run needs to know of key changes: whether rows may have taken each other's keys from the first new place on
    (`trades`), and whether keys must be rebuilt from their first change for it (`asks_for_all`): where such a transaction
    began before the place from which its key is rebuilt; where the history knows the row that lived at the key in part
    only; or where the run is late and a key change behind it lacks columns, so that their values come from the old key,
    and go on from there to keys that the run does not touch. -#}
{%- macro _pending_key_changes(target_relation, stream, columns, options, taken_in, condition, pending) -%}
    {%- set is_late = pending.min_seq <= taken_in.max_seq -%}
    {%- set slice = afterimage._slice(pending, options) -%}
    {%- set seen = afterimage._pending_changes(stream, slice, options) if is_late else pending -%}
    {%- if not (seen.ends or seen.sparse_moves) -%}
        {{ return({'trades': false, 'sparse_moves': 0, 'asks_for_all': false}) }}
    {%- endif -%}
    {%- set found = {
        'trades': false,
        'sparse_moves': seen.sparse_moves,
        'asks_for_all': is_late and seen.sparse_moves > 0,
    } -%}
    {%- if not seen.ends -%}
        {{ return(found) }}
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
    {#- Rows rarely take each other's keys, and this is quicker than all that it takes to say what follows from it. -#}
    {%- if afterimage._trading_keys(stream, options.unique_key, meets_slice) == 0 -%}
        {{ return(found) }}
    {%- endif -%}
    {%- set query -%}
        select
            coalesce(max(
                key_trades.first_arrival < starts.start_seq
                {%- if is_partly_known %}
                or (starts.start_seq is not null and known.{{ afterimage._quote(options.unique_key[0]) }} is not null)
                {%- endif %}
            ), false) as asks_for_all

        from ({{ afterimage._key_trades(stream, options.unique_key, meets_slice) }}) as key_trades
        left outer join (
            select
                {{ keys | join(', ') }},
                min({{ afterimage._shared_place('change_seq') }}) as start_seq

            from (
                {%- for image in ['`before`', '`after`'] %}
                select
                    {%- for key in options.unique_key %}
                    {{ image }}.{{ afterimage._quote(key) }} as {{ keys[loop.index0] }},
                    {%- endfor %}
                    change_seq

                from {{ stream }} as changes
                where {{ image }} is not null and ({{ condition }})
                {{ 'union all' if not loop.last }}
                {%- endfor %}
            ) as touched
            group by {{ keys | join(', ') }}
        ) as starts
            on
                {%- for key in keys %}
                key_trades.{{ key }} <=> starts.{{ key }}{{ ' and' if not loop.last }}
                {%- endfor %}
        {%- if is_partly_known %}
        left outer join {{ target_relation }} as known
            on
                {%- for key in options.unique_key %}
                key_trades.{{ keys[loop.index0] }} <=> known.{{ afterimage._quote(key) }} and
                {%- endfor %}
                known.{{ plan.meta.valid_from_seq }} <= key_trades.first_arrival
                and (
                    known.{{ plan.meta.valid_to_seq }} is null
                    or known.{{ plan.meta.valid_to_seq }} >= {{ afterimage._literal(pending.min_seq) }}
                )
        {%- endif %}
    {%- endset -%}
    {%- set asks_for_all = run_query(query).rows[0][0] -%}
    {%- do found.update({'trades': true, 'asks_for_all': found.asks_for_all or asks_for_all}) -%}
    {{ return(found) }}
{%- endmacro -%}


{#- Which keys are to be cut anew, each from which place on, and what the table knows of them; kept in cached views, for
    several statements read them. -#}
{%- macro _recut_scope(target_relation, stream, columns, options, taken_in, facts, condition, pending) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set plan = afterimage._history_plan(options, names) -%}
    {%- set meta = plan.meta -%}
    {%- set keys = afterimage._key_names(options.unique_key) -%}
    {%- set slice = afterimage._slice(pending, options) -%}

    {#- The history does not hold all that a later version may need: what a transaction did before, the last values of
        columns that open no version, the times of a change that was taken back, the former place of a change that moved, the time of a truncation that ended a
        row in the very place where it began. Then a key is cut from its beginning. -#}
    {%- set meets_truncation -%}
        operation <> 'truncate'
        and change_seq in (
            select change_seq from {{ stream }} as truncations
            where operation = 'truncate' and {{ slice }}
        )
    {%- endset -%}
    {%- set ends_a_row -%}
        (operation in ('delete', 'truncate') or {{ afterimage._changes_the_key(options.unique_key) }})
    {%- endset -%}
    {%- set from_the_beginning =
        afterimage._setting('afterimage_rebuild') is not none
        or options.grain == 'transaction'
        or plan.overwritten | length > 0
        or pending.movable > 0
        or (pending.min_rejected_seq is not none and pending.min_rejected_seq <= taken_in.max_seq)
        or pending.asks_for_all
        or (
            plan.untracked | length > 0
            and facts.sparse_columns | length > 0
            and afterimage._pending_changes(stream, slice ~ ' and size(absent_columns) > 0', options).changes > 0
        )
        or (
            plan.untracked | length > 0
            and options.deletes == 'version'
            and afterimage._pending_changes(stream, slice ~ ' and ' ~ ends_a_row, options).changes > 0
        )
        or (facts.truncates and afterimage._pending_changes(stream, meets_truncation, options).changes > 0)
    -%}
    {%- set start_seq = "''" if from_the_beginning else 'min(' ~ afterimage._shared_place('change_seq') ~ ')' -%}
    {%- set slice = 'true' if from_the_beginning else slice -%}

    {#- A truncation that comes late may part what a transaction did from a truncation of its own, and so bring back
        rows of which the history knows nothing. -#}
    {%- set touches_all = options.grain == 'transaction' and pending.truncates > 0 -%}
    {%- set affected -%}
        with pending as (

            select * from {{ stream }} as changes
            where {{ condition }}

        )

        select
            {{ keys | join(', ') }},
            {{ start_seq }} as start_seq

        from (
            {%- for image in ['`before`', '`after`'] %}
            select
                {%- for key in options.unique_key %}
                {{ image }}.{{ afterimage._quote(key) }} as {{ keys[loop.index0] }},
                {%- endfor %}
                change_seq

            from {{ stream ~ ' as changes' if touches_all else 'pending' }}
            where {{ image }} is not null
            {{ 'union all' if not loop.last }}
            {%- endfor %}
            {%- if from_the_beginning and facts.carries %}
            -- Rows have taken values with them to these keys, which may be others by now.
            union all
            select
                {%- for key in options.unique_key %}
                `after`.{{ afterimage._quote(key) }} as {{ keys[loop.index0] }},
                {%- endfor %}
                change_seq

            from {{ stream }} as changes
            where reject_reason is null and {{ afterimage._is_sparse_move(options.unique_key) }}
            {%- endif %}
            {%- if pending.truncates > 0 %}
            union all
            select
                {%- for key in options.unique_key %}
                history.{{ afterimage._quote(key) }} as {{ keys[loop.index0] }},
                {%- endfor %}
                pending.change_seq

            from {{ target_relation }} as history
            inner join pending
                on
                    pending.operation = 'truncate'
                    and history.{{ meta.valid_from_seq }} <= pending.change_seq
                    -- What the truncation itself ended is cut anew too: it may come again with another time.
                    and (history.{{ meta.valid_to_seq }} is null or history.{{ meta.valid_to_seq }} >= pending.change_seq)
            {%- endif %}
        ) as touching
        group by {{ keys | join(', ') }}
    {%- endset -%}
    {#- Few keys go to the versions, not the versions to the keys. Spark cannot know beforehand that they are few. -#}
    {%- set are_few =
        pending.changes <= 500000 and pending.truncates == 0 and not (from_the_beginning and facts.carries)
    -%}
    {%- set of_history = [
        'version', 'valid_from_seq', 'valid_to_seq', 'valid_from', 'valid_to', 'history_id', 'operation', 'closed_by',
        'is_current', 'is_deleted', 'transaction_id'
    ] -%}
    {#- Besides the versions that the run may change, the ends of rows before them: one tells the number of a key's next
        version. One scan of the history gives both. And each key once without any (`is_key`). -#}
    {%- set touched -%}
        select {{ '/*+ broadcast(affected) */' if are_few }}
            {%- for key in keys %}
            affected.{{ key }},
            {%- endfor %}
            affected.start_seq,
            false as is_key,
            history.{{ meta.valid_to_seq }} is null or history.{{ meta.valid_to_seq }} >= affected.start_seq as is_touched,
            {%- for name in of_history %}
            history.{{ meta[name] }} as {{ name }},
            {%- endfor %}
            {{ afterimage._struct(names, 'history.') }} as image

        from {{ target_relation }} as history
        inner join ({{ affected }}) as affected
            on
                {%- for key in options.unique_key %}
                history.{{ afterimage._quote(key) }} <=> affected.{{ keys[loop.index0] }}{{ ' and' if not loop.last }}
                {%- endfor %}
        {%- if not from_the_beginning %}
        where
            (
                history.{{ meta.valid_to_seq }} is null
                or history.{{ meta.valid_to_seq }} >= affected.start_seq
                or history.{{ meta.closed_by }} <> 'update'
            )
            -- The same, less precisely, but so that files can be left out by it.
            and (
                history.{{ meta.valid_to_seq }} is null
                or history.{{ meta.valid_to_seq }} >= {{ afterimage._literal(pending.min_seq) }}
                or history.{{ meta.closed_by }} <> 'update'
            )
        {%- endif %}
        union all
        select
            {%- for key in keys %}
            {{ key }},
            {%- endfor %}
            start_seq,
            true as is_key,
            false as is_touched,
            {%- for name in of_history + ['image'] %}
            null as {{ name }}{{ ',' if not loop.last }}
            {%- endfor %}

        from ({{ affected }}) as affected
    {%- endset -%}
    {%- set touched = afterimage._scratch_table(target_relation, 'touched', touched) -%}
    {%- set counts = run_query(
        'select count_if(is_key), count_if(is_touched and (valid_to_seq is not null or valid_from_seq >= start_seq)) from '
        ~ touched
    ).rows[0] -%}

    {{ return({
        'touched': touched,
        'key_count': counts[0],
        'all_is_new': counts[1] == 0,
        'slice': slice,
        'from_the_beginning': from_the_beginning,
    }) }}
{%- endmacro -%}


{#- Cuts the versions, compares them with what is there, and writes the difference in one MERGE; returns the scratch
    table of the difference. -#}
{%- macro _apply_recut(target_relation, stream, columns, options, recut, facts, pending, snapshot) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set meta = afterimage._meta_columns(options.macro_name, options.meta_column_names, names) -%}
    {%- set written = [] -%}
    {%- for name in names -%}
        {%- do written.append(afterimage._quote(name)) -%}
    {%- endfor -%}
    {%- do written.extend(meta.values()) -%}

    {%- set versions = afterimage._versions(stream, columns, options, recut, facts) -%}
    {%- set difference -%}
        {%- if recut.all_is_new %}
        -- Of each key there is its open version at most, which ends now or stays as it is: nothing to compare.
        select
            if(cut.afterimage_is_known, 'closed', 'opened') as afterimage_action,
            cut.{{ meta.history_id }} as afterimage_id,
            cut.*

        from ({{ versions }}) as cut
        where not cut.afterimage_is_known or not cut.{{ meta.is_current }}
        {%- else %}
        select
            case
                when cut.{{ meta.history_id }} is null then 'removed'
                when touched.history_id is null then 'opened'
                when touched.is_current and not cut.{{ meta.is_current }} then 'closed'
                else 'recut'
            end as afterimage_action,
            coalesce(cut.{{ meta.history_id }}, touched.history_id) as afterimage_id,
            cut.*

        from ({{ versions }}) as cut
        full outer join (select * from {{ recut.touched }} where is_touched) as touched
            on cut.{{ meta.history_id }} = touched.history_id
        where
            cut.{{ meta.history_id }} is null
            or touched.history_id is null
            or not (
                {%- for column in columns %}
                {%- set name = afterimage._quote(column.name) %}
                {{ afterimage._comparable('cut.' ~ name, column.type) }}
                <=> {{ afterimage._comparable('touched.image.' ~ name, column.type) }}
                and
                {%- endfor %}
                {%- for name in meta if name != 'history_id' %}
                cut.{{ meta[name] }} <=> touched.{{ name }}{{ ' and' if not loop.last }}
                {%- endfor %}
            )
        {%- endif %}
    {%- endset -%}
    {%- set difference = afterimage._scratch_table(target_relation, 'difference', difference) -%}
    {%- set query -%}
        select to_json(named_struct(
            'opened', count_if(afterimage_action = 'opened'),
            'closed', count_if(afterimage_action = 'closed'),
            'recut', count_if(afterimage_action = 'recut'),
            'removed', count_if(afterimage_action = 'removed')
        ))

        from {{ difference }}
    {%- endset -%}
    {%- set counts = fromjson(run_query(query).columns[0].values()[0]) -%}
    {%- do log(
        model.name ~ ': ' ~ pending.changes ~ ' changes in, ' ~ recut.key_count ~ ' keys touched; versions: '
        ~ counts.opened ~ ' opened, ' ~ counts.closed ~ ' closed, ' ~ counts.recut ~ ' re-cut, '
        ~ counts.removed ~ ' removed',
        info=true
    ) -%}

    {%- if counts.opened + counts.closed + counts.recut + counts.removed == 0 -%}
        {%- call noop_statement('main', 'OK') -%} -- no version has changed {%- endcall -%}
        {%- if snapshot is not none -%}
            {%- do run_query('select ' ~ afterimage._is_at_snapshot(target_relation, snapshot)) -%}
        {%- endif -%}
    {%- else -%}
        {%- set matches -%}
known.{{ meta.history_id }} = fresh.afterimage_id
            {%- if not recut.from_the_beginning %}
and (
    known.{{ meta.valid_to_seq }} is null
    or known.{{ meta.valid_to_seq }} >= {{ afterimage._literal(pending.min_seq) }}
)
            {%- endif %}
        {%- endset -%}
        {%- set rows = 'select * from ' ~ difference ~ ' where ' ~ afterimage._is_at_snapshot(target_relation, snapshot) -%}
        {%- call statement('main') -%}
{{ afterimage._merge_rows(
    target_relation, rows, matches, written, removes="fresh.afterimage_action = 'removed'"
) }}
        {%- endcall -%}
    {%- endif -%}
    {{ return(difference) }}
{%- endmacro -%}
