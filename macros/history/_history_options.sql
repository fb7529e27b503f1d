{#- Checks and defaults of the options that `scd2` and the history materialization share. -#}
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
