{#- Keeps an SCD2 table of a change stream: the model's body selects the stream, the config says the rest.

    The first run and a full refresh build the table from the whole stream. Any other run takes the rows of the
    stream that are new by `ingested_at`, finds the keys they touch and the earliest place where each key changes,
    rebuilds those keys from there on, and writes the versions that differ in one MERGE. The result equals that of a
    full refresh, row for row. -#}
{% materialization history, adapter='spark', supported_languages=['sql'] %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set existing_relation = load_relation(this) -%}
    {%- set stream = '(\n' ~ compiled_code ~ '\n)' -%}
    {%- if config.get('unique_key') is none -%}
        {%- do exceptions.raise_compiler_error(
            'history ' ~ model.name ~ ": `unique_key` is missing in the model's config. Write, for example: "
            ~ "{{ config(materialized='history', unique_key=['id']) }}"
        ) -%}
    {%- endif -%}
    {%- set options = afterimage._history_options(
        'history ' ~ model.name,
        config.get('unique_key'),
        afterimage._option('track_columns'),
        afterimage._option('ignore_columns'),
        afterimage._option('overwrite_columns'),
        afterimage._option('grain', 'change'),
        afterimage._option('deletes', 'close'),
        afterimage._option('meta_column_names'),
        afterimage._option('load_valid_from'),
        afterimage._option('valid_to_current')
    ) -%}
    {%- if afterimage._model_format() == 'hudi' -%}
        {%- do exceptions.raise_compiler_error(
            'history ' ~ model.name ~ ": `file_format` must be one of ['iceberg', 'delta'], or a format that every run"
            ~ " rebuilds, such as 'parquet'. A Hudi table would keep one version per key. Got: hudi"
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_format_kept(existing_relation) -%}

    {{ run_hooks(pre_hooks) }}
    {%- do afterimage._drop_old_scratch_tables(target_relation) -%}
    {%- do afterimage._check_united_images(compiled_code, options) -%}

    {%- if existing_relation is none or should_full_refresh() or not afterimage._can_merge() -%}
        {%- do afterimage._build_history(target_relation, existing_relation, stream, options) -%}
    {%- else -%}
        {%- do afterimage._update_history(target_relation, stream, options) -%}
    {%- endif -%}

    {%- do afterimage._complete_table(target_relation, existing_relation) -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{#- Builds the whole history from the whole stream, in one atomic statement if the format allows it. -#}
{%- macro _build_history(target_relation, existing_relation, stream, options) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- do afterimage._check_history_contract(stream, columns, options) -%}
    {%- set renamed = options.meta_column_names or {} -%}
    {%- set pending = afterimage._pending_changes(stream, none, options) -%}
    {%- do afterimage._check_key_is_captured(stream, none, pending, options) -%}
    {%- do afterimage._check_truncations(pending, options) -%}
    {%- do afterimage._check_operations(pending, options) -%}
    {%- set remembered = afterimage._remember_all(stream, options, pending) -%}
    {%- set carried = afterimage._follow_rows(
        target_relation, stream, columns, options, afterimage._facts_of(remembered, pending=pending)
    ) -%}

    {%- do log(model.name ~ ': building from ' ~ pending.changes ~ ' changes', info=true) -%}
    {%- do afterimage._create_table_as(
        target_relation, existing_relation,
        dict(afterimage._of_model_format('properties')('history', renamed), **afterimage._bookkeeping(options, remembered)),
        afterimage._versions(stream, columns, options, facts=afterimage._facts_of(remembered, carried, pending)),
        afterimage._of_model_format('partitioning')('history', renamed) if config.get('partition_by') is none else none
    ) -%}
    {%- do afterimage._drop_scratch_tables([carried]) -%}
    {%- if afterimage._of_model_format('traits')().keeps_properties -%}
        {%- do afterimage._remember_taken_in(target_relation, remembered) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Compares the history's columns with the model's contract. The model's own SQL is the stream. -#}
{%- macro _check_history_contract(stream, columns, options) -%}
    {%- if config.get('contract').enforced -%}
        {#- The facts that need the fewest steps: the columns are the same with all others. -#}
        {%- set facts = afterimage._facts([], truncates=false, trades=false, carries=false) -%}
        {%- do afterimage._check_model_contract(afterimage._versions(stream, columns, options, facts=facts)) -%}
    {%- endif -%}
{%- endmacro -%}


{#- One incremental run of a history. The materialization `history` says what it does; _key_events says how some
    keys are rebuilt from a place on. -#}
{%- macro _update_history(target_relation, stream, options) -%}
    {%- set snapshot = afterimage._version(target_relation) -%}
    {%- set taken_in = afterimage._checked_bookkeeping(target_relation, stream, options, snapshot) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- do afterimage._check_history_contract(stream, columns, options) -%}
    {%- set altered = afterimage._check_columns_kept(target_relation, columns, options) -%}
    {%- if altered.added or altered.widenings -%}
        {%- do afterimage._alter_columns(target_relation, columns, altered) -%}
        {#- To Delta, a table with other columns is another version. -#}
        {%- set snapshot = afterimage._version(target_relation) -%}
        {%- set taken_in = afterimage._checked_bookkeeping(target_relation, stream, options, snapshot) -%}
    {%- endif -%}
    {%- set rebuild = afterimage._setting('afterimage_rebuild') -%}
    {%- set condition = rebuild or afterimage._pending_condition(taken_in) -%}
    {%- set pending = afterimage._pending_changes(stream, condition, options) -%}
    {%- do afterimage._check_times_are_stored(pending, options) -%}
    {%- do afterimage._check_key_is_captured(stream, condition, pending, options) -%}
    {%- do afterimage._check_truncations(pending, options) -%}
    {%- do afterimage._check_operations(pending, options) -%}

    {%- if pending.changes == 0 -%}
        {%- call noop_statement('main', 'OK') -%} -- nothing new {%- endcall -%}
        {%- do log(model.name ~ ': nothing new', info=true) -%}
        {{ return(none) }}
    {%- endif -%}

    {%- set condition = condition if rebuild else afterimage._runs_condition(pending) -%}
    {%- if afterimage._takes_back(pending, taken_in) -%}
        {#- The time of a change that was taken back no longer counts, and that of any other may be the latest now. -#}
        {%- set pending = dict(pending, min_time=-62135596800000000) -%}
    {%- endif -%}
    {%- if pending.last_tied is not none -%}
        {%- set pending = dict(pending, min_time=afterimage._min_time_before_ties(stream, pending, options)) -%}
    {%- endif -%}
    {%- set key_changes = afterimage._pending_key_changes(
        target_relation, stream, columns, options, taken_in, condition, pending
    ) -%}
    {%- set remembered = afterimage._remember(taken_in, pending, key_changes.trades, key_changes.carries) -%}
    {%- set rebuilt = afterimage._rebuild_scope(
        target_relation, stream, columns, options, taken_in, remembered, condition, pending, key_changes
    ) -%}
    {#- A rebuild from a later place may need fewer steps than one over all changes. -#}
    {%- set facts = afterimage._facts_of(remembered) if rebuilt.from_first_change else afterimage._facts(
        remembered.sparse_columns, remembered.truncates, key_changes.trades, key_changes.carries
    ) -%}
    {%- set carried = afterimage._follow_rows(
        target_relation, stream, columns, options, facts, none if rebuilt.from_first_change else rebuilt
    ) -%}
    {%- set difference = afterimage._apply_rebuild(
        target_relation, stream, columns, options, rebuilt, dict(facts, carried=carried), pending, snapshot
    ) -%}
    {%- do afterimage._refuse_if_overtaken(target_relation, snapshot, taken_in) -%}
    {%- if not rebuild -%}
        {%- do afterimage._remember_taken_in(target_relation, remembered) -%}
    {%- endif -%}
    {%- do afterimage._drop_scratch_tables([difference, rebuilt.touched, carried]) -%}
    {%- do afterimage._compact_when_due(target_relation, 'history', snapshot) -%}
{%- endmacro -%}
