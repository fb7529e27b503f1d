{#- Checks and defaults of the options that `scd2` and the history materialization share. -#}

{%- macro _history_options(
    macro_name, unique_key, track_columns, ignore_columns, overwrite_columns, grain, deletes, meta_column_names,
    load_valid_from
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
                macro_name ~ ": `overwrite_columns` must not name a key or a tracked column. Got: " ~ name
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if meta_column_names is not none and meta_column_names is not mapping -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `meta_column_names` must map our column names to yours. Got: " ~ meta_column_names
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
    }) }}
{%- endmacro -%}


{#- When the rows are valid from that have no time and none before them. -#}
{%- macro _load_valid_from(given=none) -%}
    {%- set moment = given or afterimage._setting('afterimage_load_valid_from') -%}
    {{ return('timestamp ' ~ afterimage._literal(moment | string)) }}
{%- endmacro -%}


{#- What the options come to for a stream with these columns: the tracked, the untracked and the overwritten ones (in
    lower case), and the names of our own. -#}
{%- macro _history_plan(options, columns) -%}
    {%- for argument in ['unique_key', 'track_columns', 'ignore_columns', 'overwrite_columns'] -%}
        {%- do afterimage._check_known(options.macro_name, argument, options[argument], columns) -%}
    {%- endfor -%}
    {%- set meta = afterimage._meta_columns(options.macro_name, options.meta_column_names, columns) -%}
    {%- set key = options.unique_key | map('lower') | list -%}
    {%- set overwritten = (options.overwrite_columns or []) | map('lower') | list -%}
    {%- set left_out = (options.ignore_columns or []) | map('lower') | list + overwritten -%}
    {%- set chosen = (options.track_columns or columns) | map('lower') | list -%}
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


{#- Our columns of a history, quoted, by the name this project knows them by. -#}
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
                macro_name ~ ": the data column `" ~ chosen ~ "` bears the name of a column of ours. Rename that: "
                ~ "meta_column_names={'" ~ name ~ "': '_" ~ name ~ "'}"
            ) -%}
        {%- endif -%}
        {%- do names.update({name: afterimage._quote(chosen)}) -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro -%}


{#- Our columns of a history that somebody reads: by the names given or else by those of the model that keeps it. -#}
{%- macro _columns_of_history(macro_name, history, meta_column_names) -%}
    {%- if meta_column_names is not none or not execute -%}
        {{ return(afterimage._meta_columns(macro_name, meta_column_names, [])) }}
    {%- endif -%}
    {%- set found = namespace(names=none) -%}
    {#- Unit tests know of no other model. Under a test's `where` the table stands in a query. -#}
    {%- for node in graph.get('nodes', {}).values() if node.config.materialized == 'history' -%}
        {%- if
            (history is string and ('from ' ~ node.relation_name ~ ' where ') in history)
            or (history is not string and history.identifier == node.alias and history.schema == node.schema)
        -%}
            {%- set found.names = node.config.meta_column_names -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(afterimage._meta_columns(macro_name, found.names, [])) }}
{%- endmacro -%}


{#- The columns of an audit behind the key. -#}
{%- macro _audit_columns() -%}
    {{ return([
        'change_id', 'change_seq', 'operation', 'changed_at', 'transaction_id', 'changed_by', 'column_name', 'old_value',
        'new_value', 'old_value_from'
    ]) }}
{%- endmacro -%}


{#- A text that differs wherever the values differ: each with its length, NULL as a dash. -#}
{%- macro _unambiguous_text(expressions) -%}
    {%- set parts = [] -%}
    {%- for expression in expressions -%}
        {%- do parts.append(
            "coalesce(concat(length(cast(" ~ expression ~ " as string)), ':', cast(" ~ expression ~ " as string)), '-')"
        ) -%}
    {%- endfor -%}
    {{ return('concat(' ~ parts | join(', ') ~ ')') }}
{%- endmacro -%}
