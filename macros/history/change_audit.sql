{#- A change stream -> who changed what, one row per changed column. Arguments: macros/history/_history.yml. -#}
{%- macro change_audit(changes, unique_key, meta_column_names=none) -%}
    {%- do afterimage._check_names('change_audit', 'unique_key', unique_key, required=true) -%}
    {%- set meta = afterimage._meta_columns(
        'change_audit', meta_column_names, unique_key, afterimage._audit_columns()
    ) -%}
    {%- if afterimage._cannot_read_columns([changes]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set typed_columns = afterimage._stream_columns('change_audit', changes) -%}
    {%- do afterimage._check_known(
        'change_audit', 'unique_key', unique_key, typed_columns | map(attribute='name') | list
    ) -%}
    {{ return(afterimage._audit_rows(
        changes, typed_columns, unique_key, meta, afterimage._load_valid_from(),
        afterimage._key_change_facts(changes, unique_key), afterimage._has_user(changes)
    )) }}
{%- endmacro -%}
