{#- The whole history at once, from the whole stream, in one atomic statement where the format has one. -#}
{%- macro _build_history(target_relation, existing_relation, stream, options) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set meta = afterimage._meta_columns(options.macro_name, options.meta_column_names, names) -%}
    {%- set is_iceberg = config.get('file_format') == 'iceberg' -%}
    {%- set pending = afterimage._pending_changes(stream, none, options) -%}
    {%- do pending.update({
        'trades': pending.ends > 0 and afterimage._trading_keys(stream, options.unique_key) > 0
    }) -%}
    {%- set facts = afterimage._remember(none, pending) -%}
    {%- if facts.carries -%}
        {%- do facts.update({'brought': afterimage._follow_rows(target_relation, stream, columns, options, facts)}) -%}
    {%- endif -%}

    {%- set properties = afterimage._bookkeeping(options, columns, none, pending) -%}
    {%- if is_iceberg -%}
        {#- A later MERGE writes its deletes and updates beside the data files instead of rewriting these. Versions lie
            apart by what closed them: a MERGE mostly needs the open ones, and of the closed ones those that ended
            their row. Each task writes all kinds, which spares the full build a shuffle. -#}
        {%- do properties.update({
            'format-version': '2',
            'write.merge.mode': 'merge-on-read',
            'write.update.mode': 'merge-on-read',
            'write.delete.mode': 'merge-on-read',
            'write.distribution-mode': 'none',
            'write.merge.distribution-mode': 'hash',
            'write.spark.fanout.enabled': 'true',
        }) -%}
        {#- Files are left out by these; else Iceberg looks at a table's first 100 columns, and at 16 characters. -#}
        {%- for name in ['is_current', 'valid_from_seq', 'valid_to_seq'] -%}
            {%- do properties.update({
                'write.metadata.metrics.column.' ~ (options.meta_column_names or {}).get(name, name): 'full'
            }) -%}
        {%- endfor -%}
    {%- endif -%}

    {%- do log(model.name ~ ': building from ' ~ pending.changes ~ ' changes', info=true) -%}
    {%- do afterimage._create_table_as(
        target_relation, existing_relation, properties,
        afterimage._versions(stream, columns, options, facts=facts),
        'partitioned by (' ~ meta.closed_by ~ ')' if is_iceberg and config.get('partition_by') is none else none
    ) -%}
    {%- do afterimage._drop_scratch_tables([facts.get('brought')]) -%}
    {%- if is_iceberg -%}
        {%- do run_query(
            'alter table ' ~ target_relation ~ " set tblproperties ('afterimage.snapshot' = '"
            ~ afterimage._snapshot(target_relation) ~ "')"
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- What the table remembers of its runs, as table properties: which changes it has taken in, by which options it was
    cut, and the snapshot that this was said of. Properties are set after the versions are written: a run that is killed
    in between is done again by the next one, to the same result. -#}
{%- macro _bookkeeping(options, columns, taken_in, pending) -%}
    {%- set remembered = afterimage._remember(taken_in, pending) -%}
    {{ return({
        'afterimage.snapshot': '',
        'afterimage.taken_in': afterimage._as_property(tojson(remembered)),
        'afterimage.options': afterimage._as_property(afterimage._options_text(options)),
    }) }}
{%- endmacro -%}


{#- A text as a table property keeps it: as hex, because `show tblproperties` hides each value that has `url`, `token`
    or the like in it, as names of columns may (`hourly_rate`). -#}
{%- macro _as_property(text) -%}
    {{ return(text.encode('utf-8').hex()) }}
{%- endmacro -%}


{#- The inverse; none for what is no such text. -#}
{%- macro _from_property(value) -%}
    {%- if value is none or not modules.re.fullmatch('([0-9a-f]{2})+', value) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(''.encode('utf-8').fromhex(value).decode('utf-8')) }}
{%- endmacro -%}


{#- The options as one text to compare. The order of names does not matter but for the key's: history_id is made of
    them. -#}
{%- macro _options_text(options) -%}
    {%- set parts = [] -%}
    {%- for name in [
        'unique_key', 'track_columns', 'ignore_columns', 'overwrite_columns', 'grain', 'deletes', 'load_valid_from'
    ] -%}
        {%- set value = options[name] -%}
        {%- set is_list = value is sequence and value is not string -%}
        {%- if is_list -%}
            {%- set names = value | map('lower') | list -%}
            {%- set value = (names if name == 'unique_key' else names | sort) | join(',') -%}
        {%- endif -%}
        {%- do parts.append(name ~ '=' ~ (value or '')) -%}
    {%- endfor -%}
    {{ return(parts | join('; ')) }}
{%- endmacro -%}


{#- What the table remembers of the changes that it has taken in. Which they are: all up to `until` (microseconds of
    `ingested_at`) and those of the later `runs`; runs of a day are kept one by one, because a staging run that began
    earlier may commit later than another. And what they hold: the last place, whether the source table was ever
    truncated, which columns were ever absent, whether rows may have taken each other's keys, and whether a key change
    ever lacked a column. (Of the last two, a table that an earlier release built says nothing: they count as true.) -#}
{%- macro _remember(taken_in, pending) -%}
    {%- set day = 24 * 60 * 60 * 1000000 -%}
    {%- set runs = ((taken_in.runs if taken_in else []) + pending.runs) | unique | sort | list -%}
    {%- set newest = runs[-1] if runs else 0 -%}
    {%- set oldest_kept = runs[-1000] if runs | length > 1000 else 0 -%}
    {%- set until = [taken_in.until if taken_in else 0, newest - day, oldest_kept] | max -%}
    {{ return({
        'until': until,
        'runs': runs | select('gt', until) | list,
        'max_seq': [taken_in.max_seq if taken_in else '', pending.max_seq or ''] | max,
        'truncates': (taken_in.truncates if taken_in else false) or pending.truncates > 0,
        'trades': (taken_in.get('trades', true) if taken_in else false) or pending.trades,
        'carries': (taken_in.get('carries', true) if taken_in else false) or pending.sparse_moves > 0,
        'sparse_columns': ((taken_in.sparse_columns if taken_in else []) + pending.sparse_columns) | unique | sort | list,
    }) }}
{%- endmacro -%}


{#- The condition on the stream that holds for changes which the table has not taken in. -#}
{%- macro _pending_condition(taken_in) -%}
    {%- if taken_in is none -%}
        {{ return('true') }}
    {%- endif -%}
    {#- As the gaps between the runs, and not with `not in`, so that files which hold one run only are left out. -#}
    {%- set gaps = [] -%}
    {%- for run in taken_in.runs -%}
        {%- do gaps.append(
            '(ingested_at > timestamp_micros(' ~ (taken_in.runs[loop.index0 - 1] if loop.index0 else taken_in.until)
            ~ ') and ingested_at < timestamp_micros(' ~ run ~ '))'
        ) -%}
    {%- endfor -%}
    {%- do gaps.append(
        'ingested_at > timestamp_micros(' ~ (taken_in.runs[-1] if taken_in.runs else taken_in.until) ~ ')'
    ) -%}
    {{ return('(ingested_at is null or ' ~ gaps | join(' or ') ~ ')') }}
{%- endmacro -%}


{#- A summary of the changes that a condition selects: one row, whatever their number. -#}
{%- macro _pending_changes(stream, condition, options) -%}
    {%- set query -%}
        select to_json(named_struct(
            'changes', count(*),
            'min_seq', {{ afterimage._shared_place('min(change_seq)') }},
            'max_seq', max(change_seq),
            {%- if condition %}
            'min_rejected_seq', min(
                if(reject_reason is not null and (`before` is not null or `after` is not null), change_seq, null)
            ),
            {%- endif %}
            'min_time', unix_micros(min(coalesce(changed_at, {{ options.load_valid_from }}))),
            'truncates', count_if(operation = 'truncate'),
            'ends', count_if(reject_reason is null and {{ afterimage._ends_a_row_of_a_transaction(options.unique_key) }}),
            'first_ender', min(if({{ afterimage._ends_a_row_of_a_transaction(options.unique_key) }}, transaction_id, null)),
            'last_ender', max(if({{ afterimage._ends_a_row_of_a_transaction(options.unique_key) }}, transaction_id, null)),
            'sparse_moves', count_if(reject_reason is null and {{ afterimage._is_sparse_move(options.unique_key) }}),
            'movable', count_if({{ afterimage._has_movable_place('change_seq') }}),
            'sparse_columns', array_distinct(flatten(collect_set(absent_columns))),
            'runs', sort_array(collect_set(unix_micros(ingested_at)))
        ), map('ignoreNullFields', 'false')) as summary

        from {{ stream }} as changes
        where {{ condition or 'true' }}
    {%- endset -%}
    {{ return(fromjson(run_query(query).columns[0].values()[0])) }}
{%- endmacro -%}


{#- The place of changes that share one: without the suffix that orders them (`.002`), which may be another when they
    come again. A suffix that is a change's own, such as a counter's, stays. -#}
{%- macro _shared_place(change_seq) -%}
    {{ return("regexp_replace(" ~ change_seq ~ ", '[.][0-9]{3}$', '')") }}
{%- endmacro -%}


{#- Whether a change stands behind the greatest change_seq that was known before it (`<change_seq>.r<number>`), so that
    it moves where a greater one comes late. -#}
{%- macro _has_movable_place(change_seq) -%}
    {{ return(change_seq ~ " like '%.r%'") }}
{%- endmacro -%}
