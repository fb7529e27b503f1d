{#- Checks the arguments of netiq_event_log and xds_documents, and says what they are about:
    - `relation`: the log; `rows` and `condition`: which of its rows to read, `log`: its columns by the vendor's names,
    - `table`, `columns`, `names`, `unique_key`: the source table, its columns ({name, type}), their names, those of the key,
    - `key_columns`, `data_columns`: the columns of the key, and the others,
    - `base`, `base_types`: the table's present rows, and their types by names in lower case,
    - `time_zone`: of event_time; and all of _netiq_rules. -#}
{%- macro _netiq_layout(macro_name, relation, unique_key, table, columns, base, column_names, time_zone, rules) -%}
    {%- set rules = afterimage._netiq_rules(macro_name, **rules) -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_text(macro_name, 'table', table) -%}
    {%- set columns = afterimage._typed_columns(macro_name, columns) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, names) -%}
    {%- do afterimage._check_text(macro_name, 'time_zone', time_zone) if time_zone is not none -%}
    {%- set log = afterimage._netiq_log_columns(macro_name, relation, column_names) -%}
    {#- A row that a sample leaves out would count as gone, and a query-back is read once. -#}
    {%- set base = afterimage._whole(base) -%}
    {%- set base_columns = afterimage._relation_columns(base) if base is not none else [] -%}
    {%- if execute and base is not none and not base_columns and flags.WHICH in ['run', 'build']
        and model.resource_type != 'unit_test' -%}
        {#- Values of unknown types could be rounded or cut. -#}
        {%- do afterimage._existing_columns(macro_name, base) -%}
    {%- endif -%}
    {%- if base_columns -%}
        {%- do afterimage._check_known(
            macro_name, 'columns (of `base`)', names, base_columns | map(attribute='name') | list
        ) -%}
    {%- endif -%}
    {%- set base_types = {} -%}
    {%- for column in base_columns -%}
        {%- do base_types.update({column.name | lower: column.type}) -%}
    {%- endfor -%}

    {%- set unique_key = afterimage._match_column_case(unique_key, names) -%}
    {%- set key_columns = columns | selectattr('name', 'in', unique_key) | list -%}
    {%- do afterimage._check_netiq_key_types(macro_name, key_columns, base_types) -%}
    {{ return(dict(rules, **{
        'relation': relation,
        'rows': relation,
        'condition': none,
        'unique_key': unique_key,
        'key_columns': key_columns,
        'table': table,
        'columns': columns,
        'data_columns': columns | rejectattr('name', 'in', unique_key) | list,
        'names': names,
        'base': base,
        'base_types': base_types,
        'log': log,
        'time_zone': time_zone,
    })) }}
{%- endmacro -%}


{#- Checks that a key that is compared as text reads in `base` as in the log: a trigger logs 1 where a decimal with
    places reads 1.0000000000, and a double 1.0. -#}
{%- macro _check_netiq_key_types(macro_name, key_columns, base_types) -%}
    {%- for column in key_columns if column.type == 'string' -%}
        {%- set type = base_types.get(column.name | lower, '') | replace(' ', '') -%}
        {%- if modules.re.fullmatch('float|double|decimal[(][0-9]+,[1-9][0-9]*[)]', type) -%}
            {%- set fault = macro_name ~ ": `columns` must have the type of the key column '" ~ column.name
                ~ "'. In `base` it is " ~ type ~ ", whose text may differ from the log's (1.0 and 1), so that no row"
                ~ " matches. Declare it as bigint if its values are whole numbers, else as " ~ type
                ~ "; or let `base` be a model that casts it, which needs no full refresh. Got: string" -%}
            {#- Another type needs a full refresh, and the log may have been pruned. -#}
            {%- if afterimage._is_incremental() -%}
                {%- do exceptions.warn(fault) -%}
            {%- else -%}
                {%- do exceptions.raise_compiler_error(fault) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


{#- The rules by which events count: whose are published, in which order, and which overrules which. -#}
{%- macro _netiq_rules(
    macro_name, driver_user, allow_loopback, future_events, as_of, force_username_case, statuses, trim_key_numbers,
    precedence
) -%}
    {%- do afterimage._check_text(macro_name, 'driver_user', driver_user) if driver_user is not none -%}
    {%- for argument, value in {
        'allow_loopback': allow_loopback, 'future_events': future_events, 'trim_key_numbers': trim_key_numbers
    }.items() -%}
        {%- do afterimage._check_choice(macro_name, argument, value, [true, false]) -%}
    {%- endfor -%}
    {%- do afterimage._check_choice(
        macro_name, 'force_username_case', force_username_case, ['upper', 'lower']
    ) if force_username_case is not none -%}
    {%- set is_list = statuses is sequence and statuses is not string and statuses is not mapping -%}
    {%- if not is_list or not statuses or statuses | reject('string') | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `statuses` must be a list of texts, with at least one. Got: " ~ statuses
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_choice(macro_name, 'precedence', precedence, ['driver', 'logged']) -%}
    {%- if as_of is not none and not modules.re.fullmatch(
        '[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?)?', as_of | string
    ) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `as_of` must be a timestamp in UTC without a zone, such as '2024-01-31' or"
            ~ " '2024-01-31 12:00:00'. Got: " ~ as_of
        ) -%}
    {%- endif -%}
    {{ return({
        'driver_user': driver_user,
        'allow_loopback': allow_loopback,
        'future_events': future_events,
        'as_of': as_of | string if as_of is not none else run_started_at.strftime('%Y-%m-%d %H:%M:%S.%f'),
        'force_username_case': force_username_case,
        'statuses': statuses,
        'trim_key_numbers': trim_key_numbers,
        'precedence': precedence,
    }) }}
{%- endmacro -%}


{#- The log's columns by the vendor's names, quoted. The vendor documents two orders and lets each column be
    renamed, so columns are found by name only. One that is NULL in every row is not in JSON files; if the log has
    another column, that may be it under another name. -#}
{%- macro _netiq_log_columns(macro_name, relation, column_names) -%}
    {%- set standard = [
        'record_id', 'status', 'event_type', 'event_time', 'perpetrator', 'table_name', 'table_key', 'column_name',
        'old_value', 'new_value',
    ] -%}
    {%- set may_be_null = ['perpetrator', 'column_name', 'old_value', 'new_value'] -%}
    {%- if column_names is not mapping -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `column_names` must map the standard names of the event log's columns to yours, such as"
            ~ " {'record_id': 'rec_id'}. Got: " ~ column_names
        ) -%}
    {%- endif -%}
    {%- for name, given in column_names.items() -%}
        {%- do afterimage._check_choice(macro_name, 'column_names', name, standard) -%}
        {%- do afterimage._check_text(macro_name, 'column_names', given) -%}
    {%- endfor -%}
    {%- set log, missing = {}, [] -%}
    {%- set found = afterimage._relation_columns(relation) | map(attribute='name') | list -%}
    {%- set known = dict(zip(standard, standard), **column_names).values() | map('lower') | list -%}
    {%- set further = found | map('lower') | reject('in', known) | list -%}
    {%- for name in standard -%}
        {%- set landed_name = column_names.get(name, name) -%}
        {%- set is_missing = found and landed_name | lower not in found | map('lower') -%}
        {%- if is_missing and (name not in may_be_null or name in column_names or further) -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": " ~ relation ~ " has no column '" ~ landed_name ~ "'. An event log has all ten of "
                ~ standard ~ "; map renamed columns with `column_names`. A column of " ~ may_be_null
                ~ " that is NULL in every row may be missing if there is no other column; else let the model read a"
                ~ " view that adds it. Got: " ~ found
            ) -%}
        {%- endif -%}
        {%- do missing.append(name) if is_missing -%}
        {%- do log.update({name: 'cast(null as string)' if is_missing else afterimage._quote(landed_name)}) -%}
    {%- endfor -%}
    {#- In any format but JSON they may have been forgotten. -#}
    {%- if missing and flags.WHICH in ['run', 'build'] and model.resource_type == 'model'
        and not afterimage._is_incremental() -%}
        {%- do exceptions.warn(
            macro_name ~ ' ' ~ model.name ~ ': ' ~ relation ~ ' lacks columns that count as NULL in each event: '
            ~ missing | join(', ') ~ '. Without `perpetrator`, `driver_user` excludes no event; without `column_name`,'
            ~ ' logged fields are rejected; without `new_value`, their values are NULL. If the log of the database has'
            ~ ' NULL there in every row, do nothing. Else land these columns, too.'
        ) -%}
    {%- endif -%}
    {{ return(log) }}
{%- endmacro -%}
