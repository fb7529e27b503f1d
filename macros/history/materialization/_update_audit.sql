{%- macro _update_audit(target_relation, stream, options) -%}
    {%- set snapshot = afterimage._snapshot(target_relation) -%}
    {%- set taken_in = afterimage._checked_bookkeeping(target_relation, stream, options, snapshot) -%}
    {%- set condition = afterimage._pending_condition(taken_in) -%}
    {%- set pending = afterimage._pending_changes(stream, condition, options) -%}
    {%- if pending.changes == 0 -%}
        {%- call noop_statement('main', 'OK') -%} -- nothing new {%- endcall -%}
        {%- do log(model.name ~ ': nothing new', info=true) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set condition = afterimage._runs_condition(pending) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- do afterimage._check_key_types(target_relation, columns, options) -%}

    {#- This skips the query whether rows take each other's keys: it takes as long as assuming that they do. -#}
    {%- do pending.update({'trades': true}) -%}
    {%- set facts = afterimage._remember(taken_in, pending) -%}
    {#- A truncation touches every key. -#}
    {%- set touched = none if pending.truncates > 0 else afterimage._scratch_table(
        target_relation, 'touched',
        'select distinct ' ~ afterimage._key_names(options.unique_key) | join(', ') ~ ' from ('
        ~ afterimage._touched_keys(stream, options.unique_key, condition, stream if facts.carries) ~ ') as touching'
    ) -%}
    {%- set carried = afterimage._follow_rows(target_relation, stream, columns, options, facts) -%}
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
            '(' ~ afterimage._audit_of_keys(stream, columns, options, dict(facts, carried=carried), touched) ~ ')',
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
    {%- do log(
        model.name ~ ': ' ~ pending.changes ~ ' changes in; rows: ' ~ counts.added ~ ' added, ' ~ counts.changed
        ~ ' changed, ' ~ counts.removed ~ ' removed',
        info=true
    ) -%}
    {%- set written = identity + compared -%}
    {%- set is_alone = afterimage._is_at_snapshot(target_relation, snapshot) -%}
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
    target_relation, 'select * from ' ~ difference ~ ' where ' ~ is_alone, matches, written,
    removes="fresh.afterimage_action = 'removed'"
) }}
        {%- endcall -%}
    {%- endif -%}
    {%- do afterimage._remember_taken_in(target_relation, facts) -%}
    {%- do afterimage._drop_scratch_tables([difference, touched, carried]) -%}
    {%- do afterimage._compact_when_due(target_relation, 'data') -%}
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


{#- The values of all other columns are texts. -#}
{%- macro _check_key_types(target_relation, columns, options) -%}
    {%- set known = {} -%}
    {%- for column in afterimage._relation_columns(target_relation) -%}
        {%- do known.update({column.name | lower: column.type}) -%}
    {%- endfor -%}
    {%- for column in columns if column.name | lower in options.unique_key | map('lower') -%}
        {%- do afterimage._check_same_type(options.macro_name, target_relation, column, known[column.name | lower]) -%}
    {%- endfor -%}
{%- endmacro -%}
