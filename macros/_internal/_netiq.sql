{#- What only Identity Manager's event log table needs. -#}

{#- Checks the arguments of netiq_event_log and xds_documents and brings them into one form. -#}
{%- macro _netiq_layout(
    macro_name, relation, unique_key, table, columns, base, driver_user, allow_loopback, future_events, as_of,
    column_names, force_username_case, statuses, trim_key_numbers, time_zone=none, precedence='driver'
) -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_text(macro_name, 'table', table) -%}
    {%- do afterimage._netiq_check_columns(macro_name, columns) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- do afterimage._check_names(macro_name, 'columns', names, required=true) -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, names) -%}
    {%- if driver_user is not none -%}
        {%- do afterimage._check_text(macro_name, 'driver_user', driver_user) -%}
    {%- endif -%}
    {%- for argument, value in {
        'allow_loopback': allow_loopback, 'future_events': future_events, 'trim_key_numbers': trim_key_numbers
    }.items() -%}
        {%- do afterimage._check_choice(macro_name, argument, value, [true, false]) -%}
    {%- endfor -%}
    {%- if force_username_case is not none -%}
        {%- do afterimage._check_choice(
            macro_name, 'force_username_case', force_username_case, ['upper', 'lower']
        ) -%}
    {%- endif -%}
    {%- do afterimage._netiq_check_statuses(macro_name, statuses) -%}
    {%- if time_zone is not none -%}
        {%- do afterimage._check_text(macro_name, 'time_zone', time_zone) -%}
    {%- endif -%}
    {%- do afterimage._check_choice(macro_name, 'precedence', precedence, ['driver', 'logged']) -%}
    {%- do afterimage._netiq_check_moment(macro_name, as_of) -%}
    {%- set log = afterimage._netiq_log_columns(macro_name, relation, column_names) -%}
    {%- set base_types = {} -%}
    {%- if base is not none and execute -%}
        {%- set base_columns = afterimage._relation_columns(base) -%}
        {%- if base_columns -%}
            {%- do afterimage._check_known(
                macro_name, 'columns (of `base`)', names, base_columns | map(attribute='name') | list
            ) -%}
        {%- endif -%}
        {%- for column in base_columns -%}
            {%- do base_types.update({column.name | lower: column.type}) -%}
        {%- endfor -%}
    {%- endif -%}

    {%- set unique_key = afterimage._as_spelled(unique_key, names) -%}
    {%- set typed = [] -%}
    {%- for column in columns -%}
        {%- do typed.append({'name': column.name, 'type': column.type | lower | trim}) -%}
    {%- endfor -%}
    {{ return({
        'relation': relation,
        'rows': relation,
        'condition': none,
        'unique_key': unique_key,
        'key_columns': typed | selectattr('name', 'in', unique_key) | list,
        'table': table,
        'columns': typed,
        'data_columns': typed | rejectattr('name', 'in', unique_key) | list,
        'names': names,
        'base': base,
        'base_types': base_types,
        'driver_user': driver_user,
        'allow_loopback': allow_loopback,
        'future_events': future_events,
        'as_of': as_of | string if as_of is not none else run_started_at.strftime('%Y-%m-%d %H:%M:%S.%f'),
        'log': log,
        'force_username_case': force_username_case,
        'statuses': statuses,
        'trim_key_numbers': trim_key_numbers,
        'time_zone': time_zone,
        'precedence': precedence,
    }) }}
{%- endmacro -%}


{%- macro _netiq_check_columns(macro_name, columns) -%}
    {%- set allowed = '(string|boolean|tinyint|smallint|int|bigint|float|double|date|timestamp|timestamp_ntz|binary'
        ~ '|decimal[(] *[0-9]+ *, *[0-9]+ *[)])' -%}
    {%- set is_list = columns is sequence and columns is not string and columns is not mapping -%}
    {%- if not is_list or not columns -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` must be a list of {name, type}, with at least one. Got: " ~ columns
        ) -%}
    {%- endif -%}
    {%- for column in columns -%}
        {%- if column is not mapping or column.name is not string or not column.name or column.type is not string
            or not modules.re.fullmatch(allowed, column.type | lower | trim) -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": each of `columns` must be a {name, type}, the type one of string, boolean, tinyint,"
                ~ " smallint, int, bigint, float, double, date, timestamp, timestamp_ntz, binary, decimal(p,s). Got: " ~ column
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


{%- macro _netiq_check_statuses(macro_name, statuses) -%}
    {%- set is_list = statuses is sequence and statuses is not string and statuses is not mapping -%}
    {%- if not is_list or not statuses or statuses | reject('string') | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `statuses` must be a list of texts, with at least one. Got: " ~ statuses
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _netiq_check_moment(macro_name, as_of) -%}
    {%- if as_of is not none and not modules.re.fullmatch(
        '[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?)?', as_of | string
    ) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `as_of` must be a moment in UTC, as '2024-01-31' or '2024-01-31 12:00:00'. Got: " ~ as_of
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- The log's columns by the vendor's names, quoted. The vendor knows two orders of them and lets each be renamed, so
    they go by name alone. -#}
{%- macro _netiq_log_columns(macro_name, relation, column_names) -%}
    {%- set standard = [
        'record_id', 'status', 'event_type', 'event_time', 'perpetrator', 'table_name', 'table_key', 'column_name',
        'old_value', 'new_value',
    ] -%}
    {%- if column_names is not mapping -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `column_names` must map columns of the event log to the names they have here. Got: "
            ~ column_names
        ) -%}
    {%- endif -%}
    {%- for name, given in column_names.items() -%}
        {%- do afterimage._check_choice(macro_name, 'column_names', name, standard) -%}
        {%- do afterimage._check_text(macro_name, 'column_names', given) -%}
    {%- endfor -%}
    {%- set log = {} -%}
    {%- set found = afterimage._relation_columns(relation) | map(attribute='name') | list if execute else [] -%}
    {%- for name in standard -%}
        {%- set here = column_names.get(name, name) -%}
        {%- if found and here | lower not in found | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": " ~ relation ~ " has no column '" ~ here ~ "'; an event log has all ten of "
                ~ standard ~ " (`column_names` says what they are called here). It has: " ~ found
            ) -%}
        {%- endif -%}
        {%- do log.update({name: afterimage._quote(here)}) -%}
    {%- endfor -%}
    {{ return(log) }}
{%- endmacro -%}


{#- A text of the log as a value of a type: NULL where it is none. try_cast takes no "1.5" for an int, as a plain cast
    would; a decimal is not rounded, a date does not lose its time. -#}
{%- macro _netiq_cast(text, type) -%}
    {%- if type == 'string' -%}
        {{ return(text) }}
    {%- elif type == 'binary' -%}
        {{ return("try_to_binary(" ~ text ~ ", 'base64')") }}
    {%- elif type.startswith('decimal') -%}
        {{ return('if(' ~ afterimage._decimal_misfit(text, type) ~ ', null, try_cast(' ~ text ~ ' as ' ~ type ~ '))') }}
    {%- elif type == 'date' -%}
        {#- Spark takes no notice of what stands behind a date. -#}
        {{ return(
            'if(cast(try_cast(' ~ text ~ ' as date) as timestamp) = try_cast(' ~ text ~ ' as timestamp), try_cast('
            ~ text ~ ' as date), null)'
        ) }}
    {%- elif type.startswith('timestamp') -%}
        {{ return('if(' ~ afterimage._has_no_date(text) ~ ', null, try_cast(' ~ text ~ ' as ' ~ type ~ '))') }}
    {%- endif -%}
    {{ return('try_cast(' ~ text ~ ' as ' ~ type ~ ')') }}
{%- endmacro -%}


{#- The inverse: a value as a trigger would have logged it. Spark breaks Base64 into lines. -#}
{%- macro _netiq_as_logged(expression, type) -%}
    {%- if type == 'binary' -%}
        {{ return("regexp_replace(base64(" ~ expression ~ "), '[\\\\r\\\\n]', '')") }}
    {%- endif -%}
    {{ return('cast(' ~ expression ~ ' as string)') }}
{%- endmacro -%}


{#- The rows of the log, for the intake. An event is judged by those before and after it on the same row, so these are
    read together. Their group is the same for all ways to write one key, at least. -#}
{%- macro _netiq_side(layout) -%}
    {%- set log = layout.log -%}
    {%- set table_name = 'trim(cast(' ~ log.table_name ~ ' as string))' -%}
    {%- set group -%}
coalesce(
    array_join(
        array_sort(split(
            regexp_replace(
                regexp_replace(lower(cast({{ log.table_key }} as string)), '["\\\\\\s]', ''),
                '=0+(?=[0-9])',
                '='
            ),
            '[+]'
        )),
        '+'
    ),
    ''
)
    {%- endset -%}
    {#- A row that names no table is nobody's, so every model that reads the log accounts for it. -#}
    {{ return({
        'relation': layout.relation,
        'group': group,
        'where': "coalesce(" ~ table_name ~ ", '') = '' or lower(" ~ table_name ~ ') = '
            ~ afterimage._literal(layout.table | lower),
        'time': afterimage._netiq_event_time(layout),
    }) }}
{%- endmacro -%}


{#- A query for the groups of what earlier runs held back and is due now; none where nothing is. -#}
{%- macro _netiq_due(layout, side) -%}
    {%- if not (layout.future_events and afterimage._is_incremental()) -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set due -%}
        select left(change_id, 20) from {{ this }}
        where reject_reason like 'held back:%' and changed_at <= timestamp '{{ layout.as_of }}'
    {%- endset -%}
    {%- if run_query(due ~ ' limit 1').rows | length == 0 -%}
        {{ return([]) }}
    {%- endif -%}
    {{ return([
        'select ' ~ side.group ~ ' from ' ~ layout.relation ~ ' where (' ~ side.where ~ ') and '
        ~ afterimage._netiq_record_no(layout.log) ~ ' in (' ~ due ~ ')'
    ]) }}
{%- endmacro -%}


{#- record_id as a text. A NUMBER without a scale lands as 10.0000000000. -#}
{%- macro _netiq_record_text(log) -%}
    {{ return("regexp_replace(trim(cast(" ~ log.record_id ~ " as string)), '[.]0*$', '')") }}
{%- endmacro -%}


{#- record_id in 20 digits, to be sorted; NULL where it is no positive whole number. -#}
{%- macro _netiq_record_no(log) -%}
    {%- set text = afterimage._netiq_record_text(log) -%}
    {{ return(
        'if(' ~ text ~ " rlike '^0*[1-9][0-9]{0,19}$', lpad(trim(leading '0' from " ~ text ~ "), 20, '0'), null)"
    ) }}
{%- endmacro -%}


{%- macro _netiq_event_time(layout) -%}
    {{ return(afterimage._db2_utc(afterimage._landed_time(layout.log.event_time), layout.time_zone or 'UTC')) }}
{%- endmacro -%}


{#- The row's key, cast to its types. -#}
{%- macro _netiq_key_values(layout) -%}
named_struct(
    {%- for key in layout.key_columns %}
    {{ afterimage._literal(key.name) }},
    {{ afterimage._netiq_cast('key_text.' ~ afterimage._quote(key.name), key.type) }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}


{#- What tells the rows of the table apart: the key's values as one text; NULL where table_key does not give them. -#}
{%- macro _netiq_object_id(layout) -%}
    {%- set values = [] -%}
    {%- for key in layout.key_columns -%}
        {%- set value = afterimage._netiq_cast('key_text.' ~ afterimage._quote(key.name), key.type) -%}
        {%- do values.append(afterimage._as_text(value, key.type)) -%}
    {%- endfor -%}
    {{ return(
        'if(size(parsed.parts) = ' ~ values | length ~ ' and ' ~ values | join(' is not null and ')
        ~ ' is not null, to_json(array(' ~ values | join(', ') ~ ')), null)'
    ) }}
{%- endmacro -%}


{#- The same of a row whose key has its types. -#}
{%- macro _netiq_key_text(keys, prefix) -%}
    {%- set values = [] -%}
    {%- for key in keys -%}
        {%- do values.append(afterimage._as_text(prefix ~ afterimage._quote(key.name), key.type)) -%}
    {%- endfor -%}
    {{ return('to_json(array(' ~ values | join(', ') ~ '))') }}
{%- endmacro -%}


{#- Whether a column of the base is of another type than it is declared. In a unit test nobody can tell. -#}
{%- macro _netiq_is_other_type(layout, column) -%}
    {%- set type = layout.base_types.get(column.name | lower, column.type) -%}
    {{ return(type | replace(' ', '') != column.type | replace(' ', '')) }}
{%- endmacro -%}


{#- A column of the base as it would have been logged. -#}
{%- macro _netiq_base_text(layout, column) -%}
    {{ return(afterimage._netiq_as_logged(
        afterimage._quote(column.name), layout.base_types.get(column.name | lower, column.type)
    )) }}
{%- endmacro -%}


{#- A column of the base as its declared type; what does not fit is NULL, as of a logged value. -#}
{%- macro _netiq_base_value(layout, column) -%}
    {%- if not afterimage._netiq_is_other_type(layout, column) -%}
        {{ return('cast(' ~ afterimage._quote(column.name) ~ ' as ' ~ column.type ~ ')') }}
    {%- endif -%}
    {%- set text = afterimage._netiq_base_text(layout, column) -%}
    {%- if column.type in ['tinyint', 'smallint', 'int', 'bigint'] -%}
        {#- A whole number of a decimal column has zeros behind the point. -#}
        {%- set text = 'regexp_replace(' ~ text ~ ", '[.]0+$', '')" -%}
    {%- endif -%}
    {{ return(afterimage._netiq_cast(text, column.type)) }}
{%- endmacro -%}


{#- Which columns of a row of the base do not fit their declared types: structs of the column and the reason. -#}
{%- macro _netiq_base_misfits(layout) -%}
array_compact(cast(array(
    {%- for column in layout.columns if afterimage._netiq_is_other_type(layout, column) %}
    {%- set text = afterimage._netiq_base_text(layout, column) %}
    {%- set reason = 'value does not cast: present value of ' ~ column.name ~ ' is no ' ~ column.type ~ ': "' %}
    if(
        {{ afterimage._quote(column.name) }} is not null and {{ afterimage._netiq_base_value(layout, column) }} is null,
        struct(
            {{ afterimage._literal(column.name) }} as column_name,
            concat({{ afterimage._literal(reason) }}, {{ text }}, '"') as reason
        ),
        null
    ){{ ',' if not loop.last }}
    {%- endfor %}
) as array<struct<column_name: string, reason: string>>))
{%- endmacro -%}


{#- Why a table_key gives no key of this table, or NULL. -#}
{%- macro _netiq_key_reason(layout) -%}
{%- set misfit = 'table_key has not the columns of the key (' ~ layout.unique_key | join(', ') ~ '): ' -%}
case
    when table_key is null then 'malformed table_key: NULL'
    when parsed.error is not null then concat('malformed table_key: ', parsed.error)
    when
        size(parsed.parts) <> {{ layout.key_columns | length }}
        {%- for key in layout.key_columns %}
        or key_text.{{ afterimage._quote(key.name) }} is null
        {%- endfor %}
        then concat({{ afterimage._literal(misfit) }}, table_key)
    {%- for key in layout.key_columns %}
    {%- set text = 'key_text.' ~ afterimage._quote(key.name) %}
    when {{ afterimage._netiq_cast(text, key.type) }} is null
        then concat(
            {{ afterimage._literal('table_key does not cast: ' ~ key.name ~ ' is no ' ~ key.type ~ ': "') }},
            {{ text }},
            '"'
        )
    {%- endfor %}
end
{%- endmacro -%}


{#- The type of a row. -#}
{%- macro _netiq_row_type(layout) -%}
    {%- set fields = [] -%}
    {%- for column in layout.columns -%}
        {%- do fields.append(afterimage._quote(column.name) ~ ': ' ~ column.type) -%}
    {%- endfor -%}
    {{ return('struct<' ~ fields | join(', ') ~ '>') }}
{%- endmacro -%}


{#- The record_id in an event's place. -#}
{%- macro _netiq_record(place) -%}
    {{ return("trim(leading '0' from regexp_extract(" ~ place ~ ", '([0-9]{20})(?:[.][0-9]+)?$', 1))") }}
{%- endmacro -%}


{#- The logged values of the fields, each cast to its type. -#}
{%- macro _netiq_typed_fields(layout, value) -%}
named_struct(
    {%- for column in layout.columns %}
    {%- set text = 'try_element_at(field_of, ' ~ afterimage._literal(column.name) ~ ').' ~ value %}
    {{ afterimage._literal(column.name) }}, {{ afterimage._netiq_cast(text, column.type) }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}


{#- Why the values of a field are none, or NULL. Type 3 takes no heed of the old value. -#}
{%- macro _netiq_value_reason(column, is_key) -%}
{%- set name = afterimage._quote(column.name) -%}
{%- set field = 'try_element_at(field_of, ' ~ afterimage._literal(column.name) ~ ')' -%}
{%- set misfit = '_value of ' ~ column.name ~ ' is no ' ~ column.type ~ ': "' -%}
case
    {%- if column.type != 'string' %}
    when {{ field }}.new_value is not null and new_values.{{ name }} is null
        then concat(
            {{ afterimage._literal('value does not cast: new' ~ misfit) }},
            {{ field }}.new_value,
            '"'
        )
    when {{ field }}.event_type = 2 and {{ field }}.old_value is not null and old_values.{{ name }} is null
        then concat(
            {{ afterimage._literal('value does not cast: old' ~ misfit) }},
            {{ field }}.old_value,
            '"'
        )
    {%- endif %}
    {%- if is_key %}
    when {{ field }} is not null and not (new_values.{{ name }} <=> key_values.{{ name }})
        then concat('the event changes the key: ', {{ afterimage._literal(column.name) }})
    {%- endif %}
end
{%- endmacro -%}


{#- A row that holds the key and the values of the logged fields. -#}
{%- macro _netiq_image(layout, values) -%}
named_struct(
    {%- for column in layout.columns %}
    {%- set name = afterimage._quote(column.name) %}
    {{ afterimage._literal(column.name) }},
    {{ ('key_values.' if column.name in layout.unique_key else values ~ '.') ~ name }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}


{#- The row after a change: from the log, or, of a query-back, the present row; of fields, what they name. -#}
{%- macro _netiq_after(layout) -%}
case
    when operation is null or operation = 'delete' then null
    when not is_query_back
        then {{ afterimage._netiq_image(layout, 'new_values') | indent(8) }}
    -- Of a row that is rejected the key alone: a history has to know whose it is.
    else named_struct(
        {%- for column in layout.columns %}
        {%- set name = afterimage._quote(column.name) %}
        {{ afterimage._literal(column.name) }},
        {%- if column.name in layout.unique_key %}
        key_values.{{ name }}
        {%- else %}
        if(
            deleted_by is null and misfit is null
            and (changed_columns is null or array_contains(changed_columns, {{ afterimage._literal(column.name) }})),
            {{ afterimage._netiq_value_read(layout, column) }},
            null
        )
        {%- endif %}{{ ',' if not loop.last }}
        {%- endfor %}
    )
end
{%- endmacro -%}


{#- What a query-back gives for a column: the present value, or, where logged values stand, what the next event of the
    column says that it was. -#}
{%- macro _netiq_value_read(layout, column) -%}
    {%- set present = 'present.' ~ afterimage._quote(column.name) -%}
    {%- if layout.precedence == 'driver' -%}
        {{ return(present) }}
    {%- endif -%}
    {%- set next = 'try_element_at(logged_next, ' ~ afterimage._literal(column.name) ~ ')' -%}
    {{ return(
        'case when ' ~ next ~ ' is null then ' ~ present ~ ' when ' ~ next ~ '.event_type in (2, 3) then '
        ~ afterimage._netiq_cast(next ~ '.old_value', column.type) ~ ' end'
    ) }}
{%- endmacro -%}


{#- The columns of `after` that nothing gives: those that no event names, and of a query-back those whose next event
    does not say what they were. -#}
{%- macro _netiq_absent_columns(layout) -%}
nullif(array_compact(cast(array(
    {%- for column in layout.data_columns %}
    {%- set name = afterimage._literal(column.name) %}
    {%- set next = 'try_element_at(logged_next, ' ~ name ~ ')' %}
    if(
        not array_contains(changed_columns, {{ name }})
        {%- if layout.precedence == 'logged' %}
        or (
            is_query_back
            and (
                {{ next }}.event_type = 1
                or ({{ next }}.event_type = 3 and {{ next }}.old_value is null)
                or (
                    {{ next }}.old_value is not null
                    and {{ afterimage._netiq_cast(next ~ '.old_value', column.type) }} is null
                )
            )
        )
        {%- endif %},
        {{ name }},
        null
    ){{ ',' if not loop.last }}
    {%- endfor %}
) as array<string>)), cast(array() as array<string>))
{%- endmacro -%}
