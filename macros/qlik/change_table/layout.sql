{#- Checks the arguments of qlik_change_table and says what the table is like; none while its columns cannot be read:
    - `columns`, `unique_key`, `types`: the data columns in ordinal order, those of the key, and types by name,
    - `ordinals`: the columns in the order of the mask's bits, `header_columns`: how many bits stand before them,
    - `header`: for each header column the SQL that reads it; a typed NULL for one that is switched off,
    - `has_mask`, `has_transactions`: whether the change_mask and the transaction_id are there,
    - `mask_is_binary`, `mask_as_text`: the form of the mask, and SQL that shows it to people,
    - `text_seq`: the bare change_seq if it is text, so that a bound on it can skip files; else empty. -#}
{%- macro _qlik_layout(relation, unique_key, columns, header_prefix, header_columns, mask_encoding) -%}
    {%- set macro_name = 'qlik_change_table' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- if header_prefix is not string -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `header_prefix` must be a text, empty if Qlik's columns have no prefix. Got: "
            ~ header_prefix
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_number(macro_name, 'header_columns', header_columns) -%}
    {%- do afterimage._check_choice(
        macro_name, 'mask_encoding', mask_encoding, ['bytes', 'hex', 'hex_bytes']
    ) if mask_encoding is not none -%}
    {%- if afterimage._needs_placeholder([relation]) -%}
        {{ return(none) }}
    {%- endif -%}

    {#- Qlik's own table begins with the header columns. A column that partitions the landed table has moved after
        the data; it counts if it is one of Qlik's. Without a prefix, only these are header columns. -#}
    {%- set of_qlik = [
        'change_seq', 'change_oper', 'change_mask', 'stream_position', 'operation', 'transaction_id', 'timestamp',
        'partition_name'
    ] -%}
    {%- set prefix = header_prefix | lower -%}
    {%- set found = namespace(header={}, data=[], types={}, leading=0, header_columns=0) -%}
    {%- for column in afterimage._existing_columns(macro_name, relation) -%}
        {%- set name = column.name | lower -%}
        {%- if (name.startswith(prefix) if prefix else name in of_qlik) -%}
            {%- set name = name[prefix | length:] -%}
            {%- do found.header.update({name: column}) -%}
            {%- set found.leading = found.leading + (1 if not found.data else 0) -%}
            {%- set found.header_columns = found.header_columns + (1 if not found.data or name in of_qlik else 0) -%}
        {%- else -%}
            {%- do found.data.append(column.name) -%}
            {%- do found.types.update({column.name: column.type}) -%}
        {%- endif -%}
    {%- endfor -%}

    {%- if not found.header -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " is not a Qlik change table: it has "
            ~ (
                'no columns with the prefix ' ~ header_prefix if header_prefix
                else 'none of the columns ' ~ of_qlik | join(', ')
            )
            ~ ". Give the change table (`<table>__ct`), or set `header_prefix`. Got: " ~ found.data | join(', ')
        ) -%}
    {%- endif -%}
    {#- Spark sorts the columns of JSON files by name, so any of them may come first. -#}
    {%- set is_json = afterimage._are_json_files(relation) -%}
    {%- set found.leading = 0 if is_json else found.leading -%}
    {%- set names_all = columns is not none and not (is_json and columns | length < found.data | length) -%}
    {%- if found.leading == 0 and 'change_mask' in found.header and (header_columns is none or not names_all) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ (
                ' are JSON files, whose columns Spark sorts by name' if is_json
                else ' does not begin with a header column'
            ) ~ ", so the columns behind the bits of "
            ~ header_prefix ~ "change_mask are unknown. Set `header_columns` to the number of header columns in Qlik's"
            ~ " own table (7, or 8 if partitioned), and `columns` to all data columns in the source's order"
            ~ (', or land the files with `afterimage land --copy`' if is_json)
            ~ ". Got: " ~ header_columns ~ " and " ~ columns
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_known(macro_name, 'columns', columns, found.data) -%}
    {%- set columns = afterimage._match_column_case(columns or found.data, found.data) -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, columns) -%}

    {#- A list of all columns gives the source's order. A list of some cannot, so their order is that of the table,
        unless the table has an order of its own. -#}
    {%- set is_in_order = found.leading > 0 or 'change_mask' not in found.header -%}
    {%- set ordinals = found.data if is_in_order and columns | length < found.data | length else columns -%}
    {%- if columns | list != ordinals | select('in', columns) | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` leaves out columns, so the others must be in the order of the table: "
            ~ found.data ~ ". Got: " ~ columns
        ) -%}
    {%- endif -%}
    {%- if 'change_seq' not in found.header
        or ('change_oper' not in found.header and 'operation' not in found.header) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " must have the columns " ~ header_prefix ~ "change_seq and "
            ~ header_prefix ~ "change_oper (or " ~ header_prefix ~ "operation). Give the `__ct` table, or set"
            ~ " `header_prefix`. Got: " ~ (found.header.keys() | list) ~ " with the prefix '" ~ header_prefix ~ "'"
        ) -%}
    {%- endif -%}
    {%- set expressions = {} -%}
    {%- for name, template in {
        'change_seq': 'trim(cast(<column> as string))',
        'change_oper': 'upper(trim(cast(<column> as string)))',
        'operation': 'upper(trim(cast(<column> as string)))',
        'timestamp': afterimage._landed_time('<column>', found.header.timestamp.type if 'timestamp' in found.header else none),
        'transaction_id': "nullif(trim(cast(<column> as string)), '')",
        'change_mask': '<column>',
    }.items() -%}
        {%- set type = 'timestamp' if name == 'timestamp' else 'string' -%}
        {%- if name in found.header -%}
            {%- do expressions.update(
                {name: template | replace('<column>', afterimage._quote(found.header[name].name))}
            ) -%}
        {%- else -%}
            {%- do expressions.update({name: 'cast(null as ' ~ type ~ ')'}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set mask_is_binary = 'change_mask' in found.header and found.header.change_mask.type == 'binary' -%}

    {{ return({
        'columns': columns,
        'unique_key': afterimage._in_column_order(unique_key, columns),
        'types': found.types,
        'ordinals': ordinals,
        'header': expressions,
        'has_mask': 'change_mask' in found.header,
        'has_transactions': 'transaction_id' in found.header,
        'text_seq': afterimage._quote(found.header.change_seq.name) if found.header.change_seq.type == 'string' else '',
        'header_columns': header_columns if header_columns is not none else found.header_columns,
        'mask_is_binary': mask_is_binary,
        'mask_as_text': 'hex(unmasked.change_mask)' if mask_is_binary else 'unmasked.change_mask',
    }) }}
{%- endmacro -%}


{#- Whether a row is one of an insert. -#}
{%- macro _qlik_is_insert(header) -%}
coalesce(nullif({{ header.change_oper }}, ''), if({{ header.operation }} = 'INSERT', 'I', ''), '') = 'I'
    and coalesce({{ header.operation }}, 'INSERT') = 'INSERT'
{%- endmacro -%}


{#- The rows of the change table, for the intake. Rows of one change_seq are read together; load rows and rows
    without a place are read with those of the same key. (Zeros are the change_seq of load rows, or an ordinary
    change_seq.) -#}
{%- macro _qlik_side(relation, layout) -%}
    {%- set header = layout.header -%}
    {%- set zeros = "'" ~ '0' * 35 ~ "'" -%}
    {%- set group -%}
if(
    {{ afterimage._qlik_has_place(header.change_seq) }}
    or ({{ header.change_seq }} <=> {{ zeros }} and not ({{ afterimage._qlik_is_insert(header) }})),
    {{ header.change_seq }},
    cast({{ afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) }} as string)
)
    {%- endset -%}
    {#- Spark cannot skip files by a trimmed column, so the condition is also on the bare column, where a leading
        blank sorts before all digits. -#}
    {%- set bounds = layout.header.change_seq ~ " between '<first>' and '<last>'" -%}
    {%- if layout.text_seq -%}
        {%- set bounds = '(' ~ layout.text_seq ~ " between '<first>' and '<last>~' or " ~ layout.text_seq ~ " < '0') and "
            ~ bounds -%}
    {%- endif -%}
    {{ return({
        'relation': relation,
        'group': group,
        'place': header.change_seq,
        'has_place': afterimage._qlik_has_place(header.change_seq),
        'reach': 8,
        'bounds': '(' ~ bounds ~ ')',
        'column': layout.text_seq or none,
        'known_unplaced': "known.change_seq < '" ~ '0' * 34 ~ "1'",
        'time': afterimage._sequence_time(header.change_seq),
        'keeps': 35,
        'latest': afterimage._qlik_latest_seq(),
    }) }}
{%- endmacro -%}


{#- The condition that a change_seq gives its row a place: 35 digits, and not the zeros that some landings make of a
    full load's empty one. -#}
{%- macro _qlik_has_place(change_seq) -%}
    coalesce({{ change_seq }} rlike '^(?!0*$)[0-9]{35}$', false)
{%- endmacro -%}


{#- The last change_seq that may count as the newest. -#}
{%- macro _qlik_latest_seq() -%}
    {{ return(modules.re.sub('[^0-9]', '', afterimage._latest_time()) ~ '9' * 21) }}
{%- endmacro -%}
