{#- One incremental run of a history. The materialization `history` says what it does; _key_events says how some
    keys are rebuilt from a place on. -#}
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
    {%- set rebuilt = afterimage._rebuild_scope(
        target_relation, stream, columns, options, taken_in, remembered, condition, pending
    ) -%}
    {%- set facts = remembered if rebuilt.from_first_change
        else dict(remembered, trades=pending.trades, carries=pending.sparse_moves > 0) -%}
    {%- set facts = dict(facts, carried=afterimage._follow_rows(
        target_relation, stream, columns, options, facts, none if rebuilt.from_first_change else rebuilt
    )) -%}
    {%- set difference = afterimage._apply_rebuild(
        target_relation, stream, columns, options, rebuilt, facts, pending, snapshot
    ) -%}
    {%- if not rebuild -%}
        {%- do afterimage._remember_taken_in(target_relation, remembered) -%}
    {%- endif -%}
    {%- do afterimage._drop_scratch_tables([difference, rebuilt.touched, facts.carried]) -%}
    {%- do afterimage._compact_when_due(target_relation, 'delete') -%}
{%- endmacro -%}
