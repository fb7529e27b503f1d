{#- Checks the arguments of dms_changes and says what the files are like; none while their columns cannot be read:
    - `columns`, `unique_key`, `types`: the data columns, those of the key, and types by name in lower case,
    - `image_of`: column -> its before-image column; `sparse`: the columns in which NULL means "not captured",
    - `has_image`: SQL for whether a row has a before-image of its key; Oracle's has only the columns that changed,
    - `operation`, `is_load`: SQL for the code, and for whether the row is of a full load,
    - `time`, `source_time`: SQL for the landed time and for the time of the change,
    - `order`: what _dms_order returns for the columns `order_by`. -#}
{%- macro _dms_layout(relation, unique_key, columns, operation, order_by, time, before_prefix, null_is_absent) -%}
    {%- set macro_name = 'dms_changes' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- do afterimage._check_names(macro_name, 'order_by', order_by) -%}
    {%- do afterimage._check_names(macro_name, 'null_is_absent', null_is_absent) -%}
    {%- do afterimage._check_text(macro_name, 'operation', operation) -%}
    {%- do afterimage._check_text(macro_name, 'time', time) if time is not none -%}
    {%- do afterimage._check_text(macro_name, 'before_prefix', before_prefix) if before_prefix is not none -%}
    {%- if afterimage._needs_placeholder([relation]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found, types = [], {} -%}
    {%- for column in afterimage._existing_columns(macro_name, relation) -%}
        {%- do found.append(column.name) -%}
        {%- do types.update({column.name | lower: column.type}) -%}
    {%- endfor -%}

    {#- Files of a full load lack the operation unless the task has IncludeOpForFullLoad. -#}
    {%- set has_operation = operation | lower != 'op' or 'op' in types -%}
    {%- set header = {} -%}
    {%- for argument, names in {
        'operation': [operation] if has_operation else [], 'time': [time] if time else [], 'order_by': order_by or []
    }.items() -%}
        {%- do afterimage._check_known(macro_name, argument, names, found) -%}
        {%- do header.update({argument: afterimage._match_column_case(names, found)}) -%}
    {%- endfor -%}
    {%- for name in found if not order_by and afterimage._is_dms_sequence(name, types[name | lower]) -%}
        {%- do header.order_by.append(name) -%}
    {%- endfor -%}
    {%- if has_operation and not order_by and header.order_by | length != 1 -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `order_by` must list the columns that order the changes, as " ~ relation ~ " has "
            ~ (header.order_by | length or 'no') ~ " columns called change_seq of text or decimal(38,0) (the task's expression"
            ~ " $AR_H_CHANGE_SEQ). If that has another name, such as transact_id, list it."
            ~ " Allowed: " ~ found ~ ". Got: " ~ order_by
        ) -%}
    {%- endif -%}

    {%- do afterimage._check_known(macro_name, 'columns', columns, found) -%}
    {%- set images = afterimage._before_columns(found, types, columns or [], before_prefix or '') -%}
    {%- if before_prefix and not images -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `before_prefix` must begin the names of before-image columns, such as " ~ before_prefix
            ~ unique_key[0] ~ ". Got: " ~ before_prefix ~ ", and the columns " ~ found
        ) -%}
    {%- endif -%}
    {%- set others = header.values() | sum(start=[]) + images.values() | list -%}
    {%- set data = afterimage._match_column_case(columns, found) if columns else found | reject('in', others) | list -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, data) -%}
    {%- do afterimage._check_known(macro_name, 'null_is_absent', null_is_absent, data) -%}
    {%- set image_of = {} -%}
    {%- for name in data if name | lower in images -%}
        {%- do image_of.update({name: images[name | lower]}) -%}
    {%- endfor -%}
    {%- set key_images = [] -%}
    {%- for name in unique_key if name | lower in images -%}
        {%- do key_images.append(images[name | lower]) -%}
    {%- endfor -%}
    {%- set code = "coalesce(upper(trim(cast(" ~ afterimage._quote(header.operation | first) ~ " as string))), '')"
        if has_operation else "''" -%}
    {%- set landed_at = afterimage._landed_time(afterimage._quote(time), types[time | lower]) if time
        else 'cast(null as timestamp)' -%}
    {#- Some sources have 1970-01-01 until a transaction is committed. As a place it would sort before all changes. -#}
    {%- set source_time = 'if(' ~ landed_at ~ " >= timestamp '1970-01-02 00:00:00', " ~ landed_at ~ ', null)' -%}
    {%- set order = afterimage._dms_order(
        header.order_by, types, {header.time | first: source_time} if time else {}
    ) -%}
    {#- Without IncludeOpForFullLoad, the changes of CdcInsertsAndUpdates have no code. A sequence shows them. -#}
    {{ return({
        'columns': data,
        'unique_key': afterimage._in_column_order(unique_key, data),
        'types': types,
        'image_of': image_of,
        'has_image': '(' ~ (afterimage._each(key_images, '{column} is not null') | join(' or ') or (image_of | length > 0)) ~ ')',
        'sparse': afterimage._match_column_case(null_is_absent or [], data),
        'operation': 'if(' ~ code ~ " = '' and not " ~ order.no_sequence ~ ", 'U', " ~ code ~ ')',
        'is_load': '((' ~ code ~ " = '' and " ~ order.no_sequence ~ ') or (' ~ code ~ " = 'I' and " ~ order.is_empty ~ '))',
        'time': time,
        'source_time': source_time,
        'order': order,
        'order_by': header.order_by,
    }) }}
{%- endmacro -%}


{#- Whether a column has the 35 digits of $AR_H_CHANGE_SEQ, by its name and its type. An `exchange_seq` has others. -#}
{%- macro _is_dms_sequence(name, type) -%}
    {{ return(
        modules.re.search('(^|_)change_seq$', name | lower) is not none
        and type in ['string', 'decimal(35,0)', 'decimal(38,0)']
    ) }}
{%- endmacro -%}


{#- The order of changes that the columns of `order_by` give. `types` are by names in lower case, `times` holds a
    timestamp for each text column that is a time. The result is SQL over a landed row, and what `_intake` needs:
    - `place`: the columns in one text that sorts as they do; NULL if one of them has no value,
    - `is_empty`: whether none has a value; `no_sequence`: whether none has a sequence; `time`: the time in a sequence;
      `shown`: the values as people read them,
    - `has_sequence`: whether each change has a place of its own; `forms`: what each column is read as, since a time, a
      number and a text of the same column do not sort together,
    - `bounds`, `column` and `latest`: as in a side of `_intake`. -#}
{%- macro _dms_order(names, types, times) -%}
    {%- set order = {'bounds': none, 'column': none, 'latest': none, 'has_sequence': false, 'forms': []} -%}
    {%- set places, empty, sequence_times, values = [], ['true'], ['cast(null as timestamp)'], [] -%}
    {%- set no_sequence = ['true'] -%}
    {%- for name in names -%}
        {%- set column, type = afterimage._quote(name), types[name | lower] -%}
        {%- set is_sequence = afterimage._is_dms_sequence(name, type) -%}
        {#- One of another name may be a sequence, too. -#}
        {%- set may_be_sequence = name not in times and afterimage._is_dms_sequence('change_seq', type) -%}
        {%- set text = column if type == 'string' else 'cast(' ~ column ~ ' as string)' -%}
        {%- set digits = text if type == 'string' else 'lpad(' ~ text ~ ", 35, '0')" -%}
        {%- set place = afterimage._sortable_text(times.get(name, column), 'timestamp' if name in times else type) -%}
        {%- if is_sequence -%}
            {%- do order.update({'has_sequence': true}) -%}
            {%- set place = 'if(' ~ digits ~ " rlike '^(?!0*$)[0-9]{35}$', " ~ digits ~ ', null)' -%}
        {%- elif place is none -%}
            {%- do exceptions.raise_compiler_error(
                "dms_changes: `order_by` must list columns of text, bytes, whole numbers, decimals, dates or"
                ~ " timestamps. Got: " ~ name ~ ", a " ~ type
            ) -%}
        {%- endif -%}
        {%- do order.forms.append(
            'sequence' if is_sequence else 'time' if name in times else afterimage._dms_form(type)
        ) -%}
        {%- do places.append('nullif(' ~ place ~ ", '')") -%}
        {%- set nothing = '[\\\\s0]*' if is_sequence or may_be_sequence else '\\\\s*' -%}
        {%- do empty.append('coalesce(' ~ text ~ " rlike '^" ~ nothing ~ "$', true)") -%}
        {%- if is_sequence -%}
            {%- do no_sequence.append(empty[-1]) -%}
        {%- elif may_be_sequence -%}
            {%- do no_sequence.append('not coalesce(' ~ text ~ " rlike '^(19|20)[0-9]{33}$', false)") -%}
        {%- endif -%}
        {%- do values.append('coalesce(' ~ afterimage._as_text(column, type) ~ ", 'NULL')") -%}
        {%- if is_sequence or may_be_sequence -%}
            {%- do sequence_times.append(
                'if(' ~ digits ~ " rlike '^[0-9]{35}$', " ~ afterimage._sequence_time(digits) ~ ', null)'
            ) -%}
        {%- endif -%}
        {#- Spark skips files only if the condition is on the column itself, not on an expression. -#}
        {%- if loop.first and is_sequence -%}
            {%- set bounds = column ~ (" between left('<first>', 35) and left('<last>', 35)" if type == 'string' else
                " between cast(left('<first>', 35) as decimal(38,0)) and cast(left('<last>', 35) as decimal(38,0))") -%}
            {%- do order.update({
                'bounds': bounds,
                'column': column if type == 'string' else none,
                'latest': modules.re.sub('[^0-9]', '', afterimage._latest_time()) ~ '~',
            }) -%}
        {%- elif loop.first and type == 'string' and name not in times -%}
            {%- set bound = "cast(unhex(regexp_extract('<first>', '^[0-9A-F]*', 0)) as string)" -%}
            {%- do order.update({
                'bounds': column ~ ' between ' ~ bound ~ ' and ' ~ bound | replace('<first>', '<last>'),
                'column': column,
            }) -%}
        {%- elif loop.first and (name in times or type in ['timestamp', 'timestamp_ntz', 'date']) -%}
            {%- do order.update({'latest': '%019d~' % ((run_started_at.timestamp() + 86400) * 1000000)}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set place = 'concat(' ~ places | join(", '-', ") ~ ')' if places else 'cast(null as string)' -%}
    {%- do order.update({
        'place': place,
        'is_empty': '(' ~ empty | join(' and ') ~ ')',
        'no_sequence': '(' ~ no_sequence | join(' and ') ~ ')',
        'time': 'coalesce(' ~ sequence_times | join(', ') ~ ')',
        'shown': 'concat_ws(' ~ (["', '"] + values) | join(', ') ~ ')',
        'bounds': order.bounds or place ~ " between '<first>' and '<last>'",
    }) -%}
    {{ return(order) }}
{%- endmacro -%}


{#- The types whose values have texts that sort together, see _sortable_text, in one word. -#}
{%- macro _dms_form(type) -%}
    {%- if type.startswith('decimal') -%}
        {{ return('decimal(*,' ~ type.split(',')[1]) }}
    {%- endif -%}
    {{ return({
        'string': 'text', 'binary': 'text', 'date': 'time', 'timestamp': 'time', 'timestamp_ntz': 'time'
    }.get(type, 'number')) }}
{%- endmacro -%}
