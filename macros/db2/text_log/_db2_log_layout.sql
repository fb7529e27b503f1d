{#- Checks the arguments, and finds the key columns of the log (PK01, PK02, …) and the columns of the base. -#}
{%- macro _db2_log_layout(macro_name, relation, unique_key, base, columns, time_zone) -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- do afterimage._check_text(macro_name, 'time_zone', time_zone) -%}
    {%- if afterimage._cannot_read_columns([relation, base]) -%}
        {{ return(none) }}
    {%- endif -%}

    {%- set log = {} -%}
    {%- set numbered = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do log.update({column.name | upper: column}) -%}
        {%- set number = (column.name | upper)[2:] -%}
        {%- if (column.name | upper).startswith('PK') and number.isdigit() -%}
            {%- do numbered.update({number | int: column.name}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set log_keys = numbered | dictsort | map('last') | list -%}
    {%- if 'OPERATION' not in log or 'TIME' not in log or not log_keys -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " must have the columns OPERATION, TIME and PK01 (PK02, …). Give the log"
            ~ " table of the text index; for a CD or CCD table use db2_change_data. Got: " ~ (log.values() | map(attribute='name') | list)
        ) -%}
    {%- endif -%}
    {%- if log_keys | length != unique_key | length -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `unique_key` must name one column of the base for each of " ~ log_keys ~ ", in this order."
            ~ " Got: " ~ unique_key
        ) -%}
    {%- endif -%}

    {%- set base_columns = afterimage._relation_columns(base) -%}
    {%- set found = base_columns | map(attribute='name') | list -%}
    {%- if not found -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `base` must be an existing table with the current rows of the source table. Got: " ~ base
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_known(macro_name, 'columns', columns, found) -%}
    {%- set data = afterimage._match_column_case(columns, found) if columns else found -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, data) -%}

    {{ return({
        'columns': data,
        'unique_key': afterimage._match_column_case(unique_key, data),
        'types': afterimage._column_types(base_columns),
        'operation': afterimage._quote(log['OPERATION'].name),
        'landed_time': afterimage._quote(log['TIME'].name),
        'time': afterimage._db2_time(log['TIME']),
        'log_keys': log_keys,
        'key_names': afterimage._key_names(log_keys),
    }) }}
{%- endmacro -%}
