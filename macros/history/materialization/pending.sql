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


{#- Whether the table may have taken in as good what is rejected now: the place is one that it knows. -#}
{%- macro _takes_back(pending, taken_in) -%}
    {{ return(pending.min_rejected_seq is not none and pending.min_rejected_seq <= taken_in.max_seq) }}
{%- endmacro -%}


{#- Raises an error if `ingested_at` is the time at which a query reads the rows. It is another one in each query of a
    run, which would take in nothing that is new. -#}
{%- macro _check_times_are_stored(pending, options) -%}
    {%- if pending.is_time_of_reading -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ': `ingested_at` must be stored with the rows. Write them to a table, with the time at'
            ~ ' which they came, read that, and run `dbt run --full-refresh --select ' ~ model.name ~ '`. Got: the time'
            ~ ' at which the rows are read'
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Raises an error if a change did not capture a column of the key: its row would have the key NULL, with all others
    like it. The key of the staging model is in each change. -#}
{%- macro _check_key_is_captured(stream, condition, pending, options) -%}
    {%- for name in pending.sparse_columns if name | lower in options.unique_key | map('lower') -%}
        {%- set changes = afterimage._value(
            'select count(*) from ' ~ stream ~ ' as changes where (' ~ (condition or 'true') ~ ')'
            ~ ' and reject_reason is null and `after` is not null and `after`.' ~ afterimage._quote(name) ~ ' is null'
            ~ ' and array_contains(absent_columns, ' ~ afterimage._literal(name) ~ ')'
        ) | int -%}
        {%- if changes > 0 -%}
            {%- do exceptions.raise_compiler_error(
                options.macro_name ~ ': ' ~ changes ~ ' changes did not capture the column `' ~ name
                ~ '` of `unique_key`, so nobody knows of which row they are. Use the `unique_key` of the staging model,'
                ~ ' which each change has, and run `dbt run --full-refresh --select ' ~ model.name ~ '`. Got: ' ~ options.unique_key
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


{#- Warns of a truncation in a stream of several staging models: the stream does not say of which table it is. -#}
{%- macro _check_truncations(pending, options) -%}
    {%- set streams = afterimage._streams_above().nodes if pending.truncates > 0 else [] -%}
    {%- if streams | length > 1 -%}
        {%- do exceptions.warn(
            options.macro_name ~ ': a truncation ends the rows of all staging models that it reads: '
            ~ streams | map(attribute='name') | sort | join(', ') ~ '. If the tables of the others were not truncated,'
            ~ ' write a model for each, and unite these.'
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Warns of changes that no version and no row can come of. Our staging macros reject such a row; another stream may
    not. -#}
{%- macro _check_operations(pending, options) -%}
    {%- if pending.unknown > 0 -%}
        {%- do exceptions.warn(
            options.macro_name ~ ': ' ~ pending.unknown ~ ' changes are left out, because their `operation` is not'
            ~ ' one of load, insert, update, delete and truncate. Write one of these, and run `dbt run --full-refresh'
            ~ ' --select ' ~ model.name ~ '`; or give the rows a `reject_reason`. Got: ' ~ pending.unknown_operation
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Raises an error if the model unites staging models whose images have other columns than each other, or another
    order, also of the fields inside a column. Spark unites by position: values would change places, or it stops with
    words of its own. SQL that makes structs may put the images together by name, so it is left alone; so are staging
    models that have few names in common, of which one may only be looked up. -#}
{%- macro _check_united_images(sql, options) -%}
    {%- set streams = afterimage._streams_above() -%}
    {%- set sql = modules.re.sub('(?s)--[^\\n]*|/[*].*?[*]/', ' ', sql ~ streams.sql) | lower -%}
    {%- if streams.nodes | length < 2 or streams.calls_macros or not modules.re.search('\\bunion\\b', sql)
        or modules.re.search('(struct|from_json)\\s*[(]', sql) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set shapes = [] -%}
    {%- for node in streams.nodes -%}
        {%- set own = afterimage._relation_of_node(node) -%}
        {%- set deferred = afterimage._relation_of_node(node.defer_relation) if node.get('defer_relation') else none -%}
        {%- set relation = own if afterimage._load_relation(own) is not none else deferred -%}
        {%- if relation is not none -%}
            {%- set columns, names = [], [] -%}
            {%- for column in afterimage._described('select `after`.* from ' ~ relation) -%}
                {%- set fields = modules.re.findall('[<,]`?([^<>,:`]+)`?:', column.spelled) -%}
                {%- do columns.append(column.name ~ (' (' ~ fields | join(', ') ~ ')' if fields else '')) -%}
                {%- do names.append(column.name) -%}
            {%- endfor -%}
            {%- do shapes.append({
                'name': node.name, 'columns': columns, 'lower': columns | map('lower') | list,
                'names': names, 'lower_names': names | map('lower') | list,
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for shape in shapes if shape.lower != shapes[0].lower -%}
        {%- set in_common = shape.lower_names | select('in', shapes[0].lower_names) | list | length -%}
        {%- if in_common * 2 >= [shape.names | length, shapes[0].names | length] | max -%}
            {%- do exceptions.raise_compiler_error(
                options.macro_name ~ ': the staging models that it unites must have the same columns, in one order,'
                ~ ' because Spark unites images by position. Write a model for each, and unite these by the names of'
                ~ " their columns; or put the images together by name (`named_struct('" ~ shape.names[0] ~ "', `after`."
                ~ shape.names[0] ~ ', …)`). Got: ' ~ shapes[0].name ~ ' with ' ~ shapes[0].columns | join(', ') ~ '; '
                ~ shape.name ~ ' with ' ~ shape.columns | join(', ')
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


{#- The staging models that the model's stream reads, by itself or through views and other tables: their `nodes`, the
    `sql` of these views and tables, and whether this `calls_macros`, whose SQL it does not show. -#}
{%- macro _streams_above() -%}
    {%- set seen, streams, sql, walk = {}, [], [], namespace(ids=model.depends_on.nodes, calls_macros=false) -%}
    {%- for _ in graph.nodes if walk.ids -%}
        {%- set above = [] -%}
        {%- for id in walk.ids if id in graph.nodes and id not in seen -%}
            {%- set node = graph.nodes[id] -%}
            {%- do seen.update({id: true}) -%}
            {%- if node.config.materialized == 'change_stream' -%}
                {%- do streams.append(node) -%}
            {%- elif node.config.materialized not in ['history', 'audit'] and node.depends_on is defined -%}
                {%- do above.extend(node.depends_on.nodes or []) -%}
                {%- do sql.append(node.raw_code) -%}
                {%- set walk.calls_macros = walk.calls_macros or (node.depends_on.macros or []) | length > 0 -%}
            {%- endif -%}
        {%- endfor -%}
        {%- set walk.ids = above -%}
    {%- endfor -%}
    {{ return({'nodes': streams, 'sql': '\n' ~ sql | join('\n'), 'calls_macros': walk.calls_macros}) }}
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
