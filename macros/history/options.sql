{#- What a history is told and what it works with: its options, its own columns, the columns of its stream. -#}


{#- Checks of the options that `scd2` and the materializations share: a dictionary of these arguments, in which
    `load_valid_from` and `valid_to_current` are SQL. -#}
{%- macro _history_options(
    macro_name, unique_key, track_columns, ignore_columns, overwrite_columns, grain, deletes, meta_column_names,
    load_valid_from, valid_to_current=none
) -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'track_columns', track_columns) -%}
    {%- do afterimage._check_names(macro_name, 'ignore_columns', ignore_columns) -%}
    {%- do afterimage._check_names(macro_name, 'overwrite_columns', overwrite_columns) -%}
    {%- do afterimage._check_choice(macro_name, 'grain', grain, ['change', 'transaction']) -%}
    {%- do afterimage._check_choice(macro_name, 'deletes', deletes, ['close', 'version']) -%}
    {%- if track_columns is not none and ignore_columns is not none -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": give `track_columns` or `ignore_columns`, not both. Got: " ~ track_columns ~ " and "
            ~ ignore_columns
        ) -%}
    {%- endif -%}
    {%- for name in overwrite_columns or [] -%}
        {%- if name | lower in ((track_columns or []) + unique_key) | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": `overwrite_columns` must not name a key column or a tracked column. Got: " ~ name
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if meta_column_names is not none and meta_column_names is not mapping -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `meta_column_names` must map Afterimage's column names to yours, such as"
            ~ " {'version': '_version'}. Got: " ~ meta_column_names
        ) -%}
    {%- endif -%}
    {{ return({
        'macro_name': macro_name,
        'unique_key': unique_key,
        'track_columns': track_columns,
        'ignore_columns': ignore_columns,
        'overwrite_columns': overwrite_columns,
        'grain': grain,
        'deletes': deletes,
        'meta_column_names': meta_column_names,
        'load_valid_from': afterimage._load_valid_from(load_valid_from),
        'valid_to_current': none if valid_to_current is none
            else afterimage._timestamp(macro_name, 'valid_to_current', valid_to_current),
    }) }}
{%- endmacro -%}


{#- The `valid_from` of rows without a timestamp that no timestamp precedes. -#}
{%- macro _load_valid_from(given=none) -%}
    {%- set moment = given or afterimage._setting('afterimage_load_valid_from') -%}
    {{ return(afterimage._timestamp('history', 'load_valid_from', moment)) }}
{%- endmacro -%}


{#- Our columns of a history, quoted, keyed by their names in this project. -#}
{%- macro _meta_columns(macro_name, meta_column_names, columns, ours=none) -%}
    {%- set ours = ours or [
        'valid_from', 'valid_to', 'valid_from_seq', 'valid_to_seq', 'is_current', 'is_deleted', 'version', 'operation',
        'closed_by', 'transaction_id', 'history_id'
    ] -%}
    {%- set renamed = meta_column_names or {} -%}
    {%- for name in renamed -%}
        {%- do afterimage._check_choice(macro_name, 'meta_column_names', name, ours) -%}
    {%- endfor -%}
    {%- set names = {} -%}
    {%- for name in ours -%}
        {%- set chosen = renamed.get(name, name) -%}
        {%- if chosen | lower in columns | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": the data column `" ~ chosen ~ "` has the name of a column that Afterimage adds. Rename"
                ~ " Afterimage's column: meta_column_names={'" ~ name ~ "': '_" ~ name ~ "'}"
            ) -%}
        {%- endif -%}
        {%- do names.update({name: afterimage._quote(chosen)}) -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro -%}


{#- Our columns in a history that is being read: by the given names, or by those of the model that keeps it. -#}
{%- macro _columns_of_history(macro_name, history, meta_column_names) -%}
    {%- if meta_column_names is not none or not execute -%}
        {{ return(afterimage._meta_columns(macro_name, meta_column_names, [])) }}
    {%- endif -%}
    {%- set found = namespace(names=none) -%}
    {#- Unit tests see no other model. Under a test's `where`, the relation is a query around the table. -#}
    {%- for node in graph.get('nodes', {}).values() if node.config.materialized == 'history' -%}
        {%- for known in [node, node.get('defer_relation')] if known -%}
            {%- if
                (history is string and ('from ' ~ known.relation_name ~ ' where ') in history)
                or (history is not string and history.identifier == known.alias and history.schema == known.schema)
            -%}
                {%- set found.names = afterimage._option('meta_column_names', given=node.config) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(afterimage._meta_columns(macro_name, found.names, [])) }}
{%- endmacro -%}


{#- What the options mean for a stream with these columns:
    - `tracked`, `untracked`: columns whose changes open a version, and all others but the key,
    - `overwritten`: those of the latter that show their last value everywhere, in lower case,
    - `meta`: our columns, see _meta_columns. -#}
{%- macro _history_plan(options, columns) -%}
    {%- for argument in ['unique_key', 'track_columns', 'ignore_columns', 'overwrite_columns'] -%}
        {%- do afterimage._check_known(options.macro_name, argument, options[argument], columns) -%}
    {%- endfor -%}
    {%- set meta = afterimage._meta_columns(options.macro_name, options.meta_column_names, columns) -%}
    {%- set key = options.unique_key | map('lower') | list -%}
    {%- set overwritten = (options.overwrite_columns or []) | map('lower') | list -%}
    {%- set left_out = (options.ignore_columns or []) | map('lower') | list + overwritten -%}
    {%- set chosen = (columns if options.track_columns is none else options.track_columns) | map('lower') | list -%}
    {%- set tracked = [] -%}
    {%- set untracked = [] -%}
    {%- for column in columns if column | lower not in key -%}
        {%- if column | lower in chosen and column | lower not in left_out -%}
            {%- do tracked.append(column) -%}
        {%- else -%}
            {%- do untracked.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({'tracked': tracked, 'untracked': untracked, 'overwritten': overwritten, 'meta': meta}) }}
{%- endmacro -%}


{#- The data columns of a change stream, which are the fields of `after`: a list of {name, type}. The type is
    unknown if the caller names the columns. Raises an error if the stream has no table, or lacks a column that every
    reader needs, or one of `needed`. -#}
{%- macro _stream_columns(macro_name, changes, columns=none, needed=[]) -%}
    {%- if columns is not none -%}
        {%- set found = [] -%}
        {%- for column in columns -%}
            {%- do found.append(column if column is mapping else {'name': column, 'type': none}) -%}
        {%- endfor -%}
        {{ return(found) }}
    {%- endif -%}
    {%- set stream = changes if changes is string else afterimage._stored_relation(changes) -%}
    {%- if stream is not string and stream.identifier.startswith('__dbt__cte__') -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the columns of " ~ stream ~ " cannot be read. Build it first. An ephemeral model has no table,"
            ~ " which `materialized='history'` and `materialized='audit'` can do without: make it a `table` or a `view`."
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_contract(macro_name, stream, needed) -%}
    {{ return(afterimage._described('select `after`.* from ' ~ stream ~ ' as changes')) }}
{%- endmacro -%}


{#- Whether a stream has a column of the contract that one from elsewhere may leave out. -#}
{%- macro _has_column(changes, name) -%}
    {%- set stream = changes if changes is string else afterimage._stored_relation(changes) -%}
    {%- set names = run_query('describe query select * from ' ~ stream ~ ' as changes').columns[0].values() -%}
    {{ return(name in names | map('lower')) }}
{%- endmacro -%}


{#- Raises an error for a relation that is not a change stream, most likely a raw table without its source macro, or
    whose places are no texts. -#}
{%- macro _check_contract(macro_name, stream, needed) -%}
    {%- set found = {} -%}
    {%- for column in run_query('describe query select * from ' ~ stream ~ ' as changes') -%}
        {%- do found.update({column['col_name'] | lower: column['data_type'] | lower}) -%}
    {%- endfor -%}
    {%- set missing = [] -%}
    {%- for name in [
        'change_id', 'change_seq', 'operation', 'before', 'after', 'absent_columns', 'changed_at', 'transaction_id',
        'reject_reason'
    ] + needed -%}
        {%- if name not in found or (name in ['before', 'after'] and not found[name].startswith('struct<')) -%}
            {%- do missing.append(name) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": this is not a change stream: missing " ~ missing ~ " (`before` and `after` must be"
            ~ " structs). Stage a raw table with the macro of its source system first. Got: " ~ found.keys() | list
        ) -%}
    {%- endif -%}
    {%- if not modules.re.match('string|(var)?char[(]', found.change_seq) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `change_seq` must be a string, because places are compared as texts. Write"
            ~ " `cast(change_seq as string)`, or numbers in one width: `lpad(change_seq, 20, '0')`. Got: "
            ~ found.change_seq
        ) -%}
    {%- endif -%}
{%- endmacro -%}
