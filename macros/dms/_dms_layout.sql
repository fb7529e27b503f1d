{#- Checks the arguments of dms_changes and works out the table's layout: the data columns, the before-image column of
    each, and expressions for what a row is, its place and its time. -#}
{%- macro _dms_layout(relation, unique_key, columns, operation, order_by, time, before_prefix, null_is_absent) -%}
    {%- set macro_name = 'dms_changes' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- for argument, names in {'columns': columns, 'order_by': order_by, 'null_is_absent': null_is_absent}.items() -%}
        {%- do afterimage._check_names(macro_name, argument, names) -%}
    {%- endfor -%}
    {%- for argument, text in {'operation': operation, 'time': time, 'before_prefix': before_prefix}.items()
        if text is not none or argument == 'operation' -%}
        {%- do afterimage._check_text(macro_name, argument, text) -%}
    {%- endfor -%}
    {%- if afterimage._cannot_read_columns([relation]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set types = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do types.update({column.name: column.type}) -%}
    {%- endfor -%}
    {%- set found = types.keys() | list -%}
    {%- if not found -%}
        {%- do afterimage._raise_no_columns(macro_name, relation) -%}
    {%- endif -%}

    {#- Files of a full load lack the operation unless the task is told to write it. -#}
    {%- set has_operation = operation | lower != 'op' or 'op' in found | map('lower') -%}
    {%- set header = {} -%}
    {%- for argument, names in {
        'operation': [operation] if has_operation else [], 'time': [time] if time else [], 'order_by': order_by or []
    }.items() -%}
        {%- do afterimage._check_known(macro_name, argument, names, found) -%}
        {%- do header.update({argument: afterimage._match_column_case(names, found)}) -%}
    {%- endfor -%}
    {%- if not order_by -%}
        {%- for name in found if (name | lower).endswith('change_seq') -%}
            {%- do header.order_by.append(name) -%}
        {%- endfor -%}
        {%- if has_operation and header.order_by | length != 1 -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": `order_by` must list the columns that order the changes, as " ~ relation ~ " has "
                ~ (header.order_by | length or 'no') ~ " columns called change_seq (the task's expression"
                ~ " $AR_H_CHANGE_SEQ). Allowed: " ~ found ~ ". Got: " ~ order_by
            ) -%}
        {%- endif -%}
    {%- endif -%}

    {%- set image_of = {} -%}
    {%- set given = (columns or []) | map('lower') | list -%}
    {%- for name in found if before_prefix -%}
        {%- for image in found if image | lower == (before_prefix ~ name) | lower and image | lower not in given -%}
            {%- do image_of.update({name: image}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if before_prefix and not image_of -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `before_prefix` must begin the names of before-image columns, such as " ~ before_prefix
            ~ unique_key[0] ~ ". Got: " ~ before_prefix ~ ", and the columns " ~ found
        ) -%}
    {%- endif -%}
    {%- set others = header.values() | sum(start=[]) + image_of.values() | list -%}
    {%- set data = afterimage._match_column_case(columns, found) if columns else found | reject('in', others) | list -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, data) -%}
    {%- do afterimage._check_known(macro_name, 'null_is_absent', null_is_absent, data) -%}
    {%- set layout = {
        'columns': data,
        'unique_key': afterimage._in_column_order(unique_key, data),
        'types': types,
        'image_of': image_of,
        'sparse': afterimage._match_column_case(null_is_absent or [], data),
        'operation': "coalesce(upper(trim(cast(" ~ afterimage._quote(header.operation[0]) ~ " as string))), '')"
            if has_operation else "''",
        'time': header.time[0] if time else none,
        'landed_at': afterimage._landed_time(afterimage._quote(header.time[0]), types[header.time[0]])
            if time else 'cast(null as timestamp)',
        'order_by': header.order_by,
    } -%}
    {%- set order = afterimage._dms_order(layout) -%}
    {%- do layout.update({'order': order, 'is_load': 'true' if not has_operation
        else '(' ~ layout.operation ~ " = '' or (" ~ layout.operation ~ " = 'I' and " ~ order.is_empty ~ '))'}) -%}
    {{ return(layout) }}
{%- endmacro -%}
