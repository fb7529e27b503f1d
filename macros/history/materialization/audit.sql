{#- Keeps an audit of a change stream: the rows of `change_audit`. The model's body selects the stream.

    The first run and a full refresh build it. Any other run takes the changes that are new by `ingested_at`, audits
    each key that they touch again from its first change, and writes the differences in one commit. If a float has
    become a double, its values have other texts, so all keys are audited again. -#}
{% materialization audit, adapter='spark', supported_languages=['sql'] %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set existing_relation = load_relation(this) -%}
    {%- set stream = '(\n' ~ compiled_code ~ '\n)' -%}
    {%- set macro_name = 'audit ' ~ model.name -%}
    {%- if config.get('unique_key') is none -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `unique_key` is missing in the model's config. Write, for example: "
            ~ "{{ config(materialized='audit', unique_key=['id']) }}"
        ) -%}
    {%- endif -%}
    {%- set options = afterimage._history_options(
        macro_name, config.get('unique_key'), none, none, none, 'change', 'close', none, none
    ) -%}
    {%- do afterimage._check_format_kept(existing_relation) -%}

    {{ run_hooks(pre_hooks) }}
    {%- do afterimage._drop_old_scratch_tables(target_relation) -%}
    {%- do afterimage._check_united_images(compiled_code, options) -%}

    {%- if existing_relation is none or should_full_refresh() or not afterimage._can_merge() -%}
        {%- do afterimage._build_audit(target_relation, existing_relation, stream, options) -%}
    {%- else -%}
        {%- do afterimage._update_audit(target_relation, stream, options) -%}
    {%- endif -%}

    {%- do afterimage._complete_table(target_relation, existing_relation) -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{%- macro _build_audit(target_relation, existing_relation, stream, options) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- do afterimage._check_audit_contract(stream, columns, options) -%}
    {%- set pending = afterimage._pending_changes(stream, none, options) -%}
    {%- do afterimage._check_key_is_captured(stream, none, pending, options) -%}
    {%- do afterimage._check_truncations(pending, options) -%}
    {%- do afterimage._check_operations(pending, options) -%}
    {%- set remembered = afterimage._with_columns(afterimage._remember_all(stream, options, pending), columns) -%}
    {%- set carried = afterimage._follow_rows(
        target_relation, stream, columns, options, afterimage._facts_of(remembered, pending=pending)
    ) -%}
    {%- do log(model.name ~ ': building from ' ~ pending.changes ~ ' changes', info=true) -%}
    {%- do afterimage._create_table_as(
        target_relation, existing_relation,
        dict(
            afterimage._of_model_format('properties')('audit', afterimage._option('meta_column_names') or {}),
            **afterimage._bookkeeping(options, remembered)
        ),
        afterimage._audit_of_keys(stream, columns, options, afterimage._facts_of(remembered, carried, pending))
    ) -%}
    {%- do afterimage._drop_scratch_tables([carried]) -%}
    {%- if afterimage._of_model_format('traits')().keeps_properties -%}
        {%- do afterimage._remember_taken_in(target_relation, remembered) -%}
    {%- endif -%}
{%- endmacro -%}


{#- The select of the audit for the keys in a table, or for all keys. A row that came from a key outside of the table is
    compared as if it had not been seen there. -#}
{%- macro _audit_of_keys(stream, columns, options, facts, wanted=none) -%}
    {%- do afterimage._check_known(
        options.macro_name, 'unique_key', options.unique_key, columns | map(attribute='name') | list
    ) -%}
    {{ return(afterimage._audit_rows(
        stream, columns, options.unique_key, afterimage._audit_names(options), options.load_valid_from, facts,
        afterimage._has_column(stream, 'changed_by'),
        of_keys='select ' ~ afterimage._key_names(options.unique_key) | join(', ') ~ ' from ' ~ wanted if wanted
    )) }}
{%- endmacro -%}


{#- The audit's own columns, by the names from the config. -#}
{%- macro _audit_names(options) -%}
    {{ return(afterimage._meta_columns(
        options.macro_name, afterimage._option('meta_column_names'), options.unique_key, afterimage._audit_columns()
    )) }}
{%- endmacro -%}


{#- Compares the audit's columns with the model's contract. The model's own SQL is the stream. -#}
{%- macro _check_audit_contract(stream, columns, options) -%}
    {%- if config.get('contract').enforced -%}
        {#- The facts that need the fewest steps: the columns are the same with all others. -#}
        {%- set facts = afterimage._facts([], truncates=false, trades=false, carries=false) -%}
        {%- do afterimage._check_model_contract(afterimage._audit_of_keys(stream, columns, options, facts)) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _update_audit(target_relation, stream, options) -%}
    {%- set snapshot = afterimage._version(target_relation) -%}
    {%- set taken_in = afterimage._checked_bookkeeping(target_relation, stream, options, snapshot) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- do afterimage._check_audit_contract(stream, columns, options) -%}
    {#- A table of an earlier release does not say which columns it was built of. -#}
    {%- do afterimage._refuse_lost_columns(target_relation, taken_in.get('columns', []), columns, options) -%}
    {%- set widenings = afterimage._check_key_types(target_relation, columns, options) -%}
    {%- if widenings -%}
        {%- do afterimage._widen_columns(target_relation, widenings) -%}
        {#- To Delta, a table with other columns is another version. -#}
        {%- set snapshot = afterimage._version(target_relation) -%}
        {%- set taken_in = afterimage._checked_bookkeeping(target_relation, stream, options, snapshot) -%}
    {%- endif -%}
    {%- set is_reworded = afterimage._is_reworded(taken_in, columns) -%}
    {%- set condition = afterimage._pending_condition(taken_in) -%}
    {%- set pending = afterimage._pending_changes(stream, condition, options) -%}
    {%- do afterimage._check_times_are_stored(pending, options) -%}
    {%- do afterimage._check_key_is_captured(stream, condition, pending, options) -%}
    {%- do afterimage._check_truncations(pending, options) -%}
    {%- do afterimage._check_operations(pending, options) -%}
    {%- if pending.changes == 0 and not is_reworded -%}
        {%- call noop_statement('main', 'OK') -%} -- nothing new {%- endcall -%}
        {%- do log(model.name ~ ': nothing new', info=true) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set condition = afterimage._runs_condition(pending) -%}

    {%- if 'moves' not in taken_in -%}
        {#- A table of an earlier release does not say whether any row ever got another key. -#}
        {%- set moved = 'select 1 from ' ~ stream ~ ' where ' ~ afterimage._changes_key(options.unique_key) -%}
        {%- set taken_in = dict(taken_in, moves=run_query(moved ~ ' limit 1').rows | length > 0) -%}
    {%- endif -%}
    {#- This skips the query whether rows take each other's keys: it takes as long as assuming that they do. -#}
    {%- set remembered = afterimage._with_columns(
        afterimage._remember(taken_in, pending, true, pending.sparse_moves > 0), columns
    ) -%}
    {#- A truncation touches every key. A change that is late or moves may say what a row of another key was. -#}
    {%- set touches_all = pending.truncates > 0 or is_reworded -%}
    {%- set keys = afterimage._key_names(options.unique_key) | join(', ') -%}
    {%- set touching = 'select distinct ' ~ keys ~ ' from ('
        ~ afterimage._touched_keys(stream, options.unique_key, condition, stream if remembered.carries)
        ~ ') as touching' -%}
    {%- if remembered.moves and not touches_all and (pending.movable > 0 or pending.min_seq <= taken_in.max_seq) -%}
        {%- set touching = afterimage._with_moves(stream, options.unique_key, touching, '`before`', '`after`') -%}
    {%- endif -%}
    {%- set touched = none if touches_all else afterimage._scratch_table(target_relation, 'touched', touching) -%}
    {#- A row that came from another key is compared with what it was there. -#}
    {%- set read = none if touches_all or not remembered.moves else afterimage._scratch_table(
        target_relation, 'read', afterimage._with_moves(
            stream, options.unique_key, 'select ' ~ keys ~ ' from ' ~ touched, '`after`', '`before`'
        )
    ) -%}
    {%- set carried = afterimage._follow_rows(
        target_relation, stream, columns, options, afterimage._facts_of(remembered)
    ) -%}
    {%- set names = afterimage._audit_names(options) -%}
    {%- set identity = afterimage._quoted(options.unique_key) + [names.change_id, names.column_name] -%}
    {%- set compared = names.values() | reject('in', identity) | list -%}
    {%- set difference -%}
        select
            case
                when fresh.{{ names.change_id }} is null then 'removed'
                when known.{{ names.change_id }} is null then 'added'
                else 'changed'
            end as afterimage_action,
            {%- for name in identity %}
            coalesce(fresh.{{ name }}, known.{{ name }}) as {{ name }},
            {%- endfor %}
            {%- for name in compared %}
            fresh.{{ name }},
            {%- endfor %}
            known.{{ names.change_seq }} as afterimage_known_seq

        from ({{ afterimage._rows_of_touched_keys(
            '(' ~ afterimage._audit_of_keys(
                stream, columns, options, afterimage._facts_of(remembered, carried), read or touched
            ) ~ ')',
            touched, options
        ) }}) as fresh
        full outer join ({{ afterimage._rows_of_touched_keys(target_relation, touched, options) }}) as known
            on
                {%- for name in identity %}
                fresh.{{ name }} <=> known.{{ name }}{{ ' and' if not loop.last }}
                {%- endfor %}
        where
            fresh.{{ names.change_id }} is null
            or known.{{ names.change_id }} is null
            {%- for name in compared %}
            or not (fresh.{{ name }} <=> known.{{ name }})
            {%- endfor %}
    {%- endset -%}
    {%- set difference = afterimage._scratch_table(target_relation, 'difference', difference) -%}
    {%- set counts = afterimage._summary(difference, dict(
        afterimage._place_bounds(names.change_seq, 'afterimage_known_seq'), **{
        'added': "count_if(afterimage_action = 'added')",
        'changed': "count_if(afterimage_action = 'changed')",
        'removed': "count_if(afterimage_action = 'removed')",
    })) -%}
    {%- if counts.removed > 0 -%}
        {%- set removed = 'select ' ~ afterimage._each(options.unique_key, '{column} as {key}') | join(', ') ~ ', '
            ~ 'afterimage_known_seq as known_seq from ' ~ difference ~ " where afterimage_action = 'removed'" -%}
        {%- do afterimage._refuse_to_lose(
            target_relation, stream, options, removed, [difference, touched, read, carried]
        ) -%}
    {%- endif -%}
    {%- do log(
        model.name ~ ': ' ~ pending.changes ~ ' changes in; rows: ' ~ counts.added ~ ' added, ' ~ counts.changed
        ~ ' changed, ' ~ counts.removed ~ ' removed',
        info=true
    ) -%}
    {%- set is_alone = afterimage._is_at_version(target_relation, snapshot) -%}
    {%- if counts.added + counts.changed + counts.removed == 0 -%}
        {%- call noop_statement('main', 'OK') -%} -- no row has changed {%- endcall -%}
        {%- do run_query('select ' ~ is_alone) -%}
    {%- else -%}
        {%- call statement('main') -%}
            {%- set matches -%}
                {%- for name in identity %}
                known.{{ name }} <=> fresh.{{ name }} and
                {%- endfor %}
                {{ afterimage._within_places(counts, 'known.' ~ names.change_seq) }}
            {%- endset -%}
{{ afterimage._merge_rows(
    target_relation, 'select * from ' ~ difference ~ ' where ' ~ is_alone, matches, identity + compared,
    removes="fresh.afterimage_action = 'removed'"
) }}
        {%- endcall -%}
    {%- endif -%}
    {%- do afterimage._refuse_if_overtaken(target_relation, snapshot, taken_in) -%}
    {%- do afterimage._remember_taken_in(target_relation, remembered) -%}
    {%- do afterimage._drop_scratch_tables([difference, touched, read, carried]) -%}
    {%- do afterimage._compact_when_due(target_relation, 'audit', snapshot) -%}
{%- endmacro -%}


{#- The rows of an audit that belong to touched keys. -#}
{%- macro _rows_of_touched_keys(audit, touched, options) -%}
    select audit.*
    from {{ audit }} as audit
    {%- if touched %}
    left semi join {{ touched }} as touched
        on {{ afterimage._each(options.unique_key, 'audit.{column} <=> touched.{key}') | join(' and ') }}
    {%- endif %}
{%- endmacro -%}


{#- Raises an error if the type of a key column has changed, and not to a wider one. Returns the widenings. All other
    columns of an audit are texts. -#}
{%- macro _check_key_types(target_relation, columns, options) -%}
    {%- set known = {} -%}
    {%- for column in afterimage._relation_columns(target_relation) -%}
        {%- do known.update({column.name | lower: column.type}) -%}
    {%- endfor -%}
    {%- set widenings = [] -%}
    {%- for column in columns if column.name | lower in options.unique_key | map('lower') -%}
        {%- do widenings.extend(
            afterimage._check_type_kept(target_relation, column, known[column.name | lower], options)
        ) -%}
    {%- endfor -%}
    {{ return(widenings) }}
{%- endmacro -%}
