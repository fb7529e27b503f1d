{#- A change stream -> its history, one row per version. Arguments: macros/history/_history.yml. -#}
{%- macro scd2(
    changes,
    unique_key,
    track_columns=none,
    ignore_columns=none,
    overwrite_columns=none,
    grain='change',
    deletes='close',
    meta_column_names=none,
    load_valid_from=none,
    columns=none,
    follow_keys=true,
    valid_to_current=none
) -%}
    {%- set options = afterimage._history_options(
        'scd2', unique_key, track_columns, ignore_columns, overwrite_columns, grain, deletes, meta_column_names,
        load_valid_from, valid_to_current
    ) -%}
    {%- if afterimage._cannot_read_columns([changes] if columns is none else []) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set typed_columns = afterimage._stream_columns('scd2', changes, columns) -%}
    {%- do afterimage._check_choice('scd2', 'follow_keys', follow_keys, [true, false]) -%}
    {%- set facts = afterimage._key_change_facts(changes, unique_key) if columns is none else none -%}
    {%- if not follow_keys -%}
        {%- set names = typed_columns | map(attribute='name') | list -%}
        {%- set facts = {'trades': false, 'carries': false, 'truncates': true, 'sparse_columns': names} -%}
    {%- endif -%}
    {{ return(afterimage._versions(changes, typed_columns, options, facts=facts)) }}
{%- endmacro -%}
