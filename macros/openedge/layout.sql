{#- Checks the arguments and works out what the tables hold; none while their columns cannot be read. Columns that a
    landing left out are typed NULLs.
    - `relation`, `tracking_relation`: the two tables; `has_changes`: false if no change table is written,
    - `columns`, `types`, `unique_key`: the data columns, their types, those of the key,
    - `fields`: the fields of the source table behind the columns (an array is one, though its elements may land as
      columns),
    - `change`, `tracking`: for each metadata column of the two tables the SQL that reads it,
    - `tracks`, `details`: whether tracking columns are there, and which are put out; `telling`: those there that say
      something of a change, the field map too,
    - `image_fields`, `tracking_fields`: the columns within `image` and `tracking`, as values to hash,
    - `field_map_type`, and the arguments of the macro of the same names. -#}
{%- macro _openedge_layout(
    relation, unique_key, columns, tracking, source_table_number, policy_level, partition_resets, field_map,
    field_map_encoding, field_map_bit_order, split_order
) -%}
    {%- set macro_name = 'openedge_change_table' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- do afterimage._check_number(macro_name, 'source_table_number', source_table_number) -%}
    {%- do afterimage._check_choice(macro_name, 'policy_level', policy_level, [none, 0, 1, 2, 3]) -%}
    {%- do afterimage._check_choice(macro_name, 'partition_resets', partition_resets, ['reject', 'truncate']) -%}
    {%- do afterimage._check_text(macro_name, 'field_map', field_map) if field_map is not none -%}
    {%- do afterimage._check_choice(
        macro_name, 'field_map_encoding', field_map_encoding, [none, 'bits', 'names', 'bytes', 'hex']
    ) -%}
    {%- do afterimage._check_choice(
        macro_name, 'field_map_bit_order', field_map_bit_order, ['high_first', 'low_first']
    ) -%}
    {%- do afterimage._check_choice(macro_name, 'split_order', split_order, ['zero_first', 'zero_last']) -%}
    {%- if afterimage._needs_placeholder([relation, tracking]) -%}
        {{ return(none) }}
    {%- endif -%}

    {%- set landed = afterimage._openedge_columns(relation, columns or [], field_map) -%}
    {%- set kept = afterimage._openedge_columns(tracking, [], field_map) if tracking is not none else none -%}
    {%- if kept is not none and not ('sequence' in kept.metadata and 'operation' in kept.metadata) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `tracking` must have the columns _Change-Sequence and _Operation, such as"
            ~ " _Cdc-Change-Tracking. Got: " ~ tracking ~ " with " ~ kept.names
        ) -%}
    {%- endif -%}
    {%- set has_changes = 'sequence' in landed.metadata -%}
    {%- if not has_changes and (tracking is none or policy_level not in [0, 1]) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " must have the column _Change-Sequence. Give the change table; policy"
            ~ " levels 0 and 1 record no values, so for them give `policy_level`, `tracking` and any table with the"
            ~ " source table's columns. Got: " ~ landed.names
        ) -%}
    {%- endif -%}
    {%- if has_changes and 'operation' not in landed.metadata -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " must have the column _Operation. Land it with the other metadata columns;"
            ~ " `tracking` does not tell the two rows of an update apart. Got: " ~ landed.names
        ) -%}
    {%- endif -%}
    {%- if source_table_number is none
        and ('table_number' in landed.metadata or 'table_number' in (kept.metadata if kept else {})) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": give `source_table_number`: "
            ~ (relation if 'table_number' in landed.metadata else tracking)
            ~ " can hold changes of several source tables, and each has its own _Change-Sequence. Got: none"
        ) -%}
    {%- endif -%}
    {%- if field_map is not none
        and 'field_map' not in landed.metadata and 'field_map' not in (kept.metadata if kept else {}) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `field_map` must name a column of " ~ (tracking or relation) ~ ". Got: " ~ field_map
        ) -%}
    {%- endif -%}

    {%- set names = landed.data | map(attribute='name') | list -%}
    {%- do afterimage._check_known(macro_name, 'columns', columns, names) -%}
    {%- set has_map = 'field_map' in landed.metadata or 'field_map' in (kept.metadata if kept else {}) -%}
    {%- do afterimage._check_order(
        macro_name, 'relation', relation, '_Continuation-Position, or a field map other than `names`,',
        names_all=(columns or []) | length == names | length
    ) if 'position' in landed.metadata or (has_map and field_map_encoding != 'names') -%}
    {%- set columns = afterimage._match_column_case(columns or names, names) -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, columns) -%}
    {#- A list of all columns gives the source's order. With a list of some, their order is that of the table. -#}
    {%- set ordinals = columns if columns | length == names | length else names -%}
    {%- if columns | list != ordinals | select('in', columns) | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` leaves out columns, so the others must be in the order of the table: "
            ~ names ~ ". Got: " ~ columns
        ) -%}
    {%- endif -%}

    {#- The two tables often land as one, joined; the change table then has the tracking columns. -#}
    {%- set source = kept if kept is not none else landed -%}
    {%- set details = ['policy_id', 'table_number', 'record_id', 'partition_id', 'tenant_id', 'user_name'] -%}
    {%- set found = namespace(tracks=tracking is not none, telling=[]) -%}
    {%- for role in details + ['field_map'] if role in source.metadata -%}
        {%- set found.tracks = true -%}
        {%- do found.telling.append(role) if role != 'table_number' -%}
    {%- endfor -%}

    {{ return({
        'relation': relation,
        'tracking_relation': tracking,
        'tracks': found.tracks,
        'telling': found.telling,
        'has_changes': has_changes,
        'columns': columns,
        'types': afterimage._column_types(landed.data),
        'unique_key': afterimage._match_column_case(unique_key, columns),
        'fields': afterimage._openedge_fields(ordinals, columns, landed.no_fields),
        'change': afterimage._openedge_expressions(landed.metadata),
        'tracking': afterimage._openedge_expressions(source.metadata),
        'details': details,
        'image_fields': afterimage._hashable_columns(columns, afterimage._column_types(landed.data), 'image.'),
        'tracking_fields': afterimage._quoted(details, 'tracking.'),
        'field_map_type': source.metadata.field_map.type if 'field_map' in source.metadata else 'string',
        'field_map_encoding': field_map_encoding,
        'field_map_bit_order': field_map_bit_order,
        'source_table_number': source_table_number,
        'policy_level': policy_level,
        'partition_resets': partition_resets,
    }) }}
{%- endmacro -%}


{#- The SQL of each metadata column. One that has several names has its value under one of them. -#}
{%- macro _openedge_expressions(metadata) -%}
    {%- set text = 'trim(cast(<column> as string))' -%}
    {%- set count = 'coalesce(try_cast(<column> as int), 0)' -%}
    {%- set number = 'try_cast(<column> as bigint)' -%}
    {%- set expressions = {} -%}
    {%- for role, template in {
        'sequence': text, 'operation': text, 'position': count, 'array_index': count, 'fragment': count,
        'transaction_id': 'nullif(' ~ text ~ ", '')", 'policy_id': text, 'table_number': number, 'record_id': number,
        'partition_id': number, 'tenant_id': number, 'user_name': text, 'field_map': '<column>'
    }.items() -%}
        {%- set values = [] -%}
        {%- for name in (metadata[role].names if role in metadata else []) -%}
            {%- do values.append(template | replace('<column>', afterimage._quote(name))) -%}
        {%- endfor -%}
        {%- do expressions.update({role: 'coalesce(' ~ values | join(', ') ~ ')' if values | length > 1
            else values[0] or (template | replace('<column>', 'cast(null as string)'))}) -%}
    {%- endfor -%}
    {#- `sequence_column` is the bare column if it is a number, so that a bound on it can skip files. -#}
    {%- do expressions.update({
        'time': afterimage._openedge_time(metadata.time) if 'time' in metadata else 'cast(null as timestamp)',
        'has_time': 'time' in metadata,
        'has_table_number': 'table_number' in metadata,
        'sequence_column': afterimage._quote(metadata.sequence.name)
            if 'sequence' in metadata and metadata.sequence.type in ['bigint', 'int'] else none,
    }) -%}
    {{ return(expressions) }}
{%- endmacro -%}


{#- A time with its zone as text, in SQL form (`2024-03-01 10:00:00:123 + 02:00`) or ISO. Without a zone it is UTC. -#}
{%- macro _openedge_time(column) -%}
    {%- set name = afterimage._quote(column.name) -%}
    {%- if column.type != 'string' -%}
        {{ return(afterimage._landed_time(name, column.type)) }}
    {%- endif -%}
    {%- set fraction = "regexp_replace(trim(" ~ name ~ "), '^(.{10})[ T](.{8}):([0-9])', '$1 $2.$3')" -%}
    {{ return(afterimage._landed_time(
        'regexp_replace(' ~ fraction ~ ", ' *([+-]) *([0-9]{2}:[0-9]{2})$', '$1$2')", 'string'
    )) }}
{%- endmacro -%}


{#- The fields of the source table, numbered as in the field map and in `_Continuation-Position`, each with its
    requested columns. The elements of an array may be separate columns, `name__1`, `name__2`. What is no field has
    the number 0. -#}
{%- macro _openedge_fields(ordinals, columns, no_fields) -%}
    {%- set fields, numbers = [], [] -%}
    {%- for name in ordinals -%}
        {%- set element = modules.re.match('^(.+)__([0-9]+)$', name) -%}
        {%- set base = element.group(1) if element else name -%}
        {%- set place = element.group(2) | int if element else 0 -%}
        {%- set previous = fields[-1] if fields else none -%}
        {%- if place > 1 and previous and previous.base == base and previous.names | length == place - 1 -%}
            {%- do previous.names.append(name) -%}
        {%- else -%}
            {%- do fields.append({'base': base if place == 1 else none, 'names': [name]}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for field in fields -%}
        {%- do numbers.append(loop.index) if field.names[0] not in no_fields -%}
        {%- do field.update({
            'number': 0 if field.names[0] in no_fields else numbers | length,
            'name': field.base if field.names | length > 1 else field.names[0],
            'is_array': field.names | length > 1,
            'columns': field.names | select('in', columns) | list,
        }) -%}
    {%- endfor -%}
    {{ return(fields) }}
{%- endmacro -%}


{#- The columns of a relation: metadata by its role, with all `names`, and data. Metadata has known names, which
    landings vary (`_Change_Sequence`, `_Array-Index`). A leading underscore alone proves nothing: fields of a source
    table may have one. `no_fields` are data that no field of the source table has: a `_Recid` that is declared. -#}
{%- macro _openedge_columns(relation, declared, field_map) -%}
    {%- set of_change_table = {
        'tranid': 'transaction_id', 'timestamp': 'time', 'changesequence': 'sequence',
        'continuationposition': 'position', 'continuation': 'position', 'arrayindex': 'array_index',
        'fragment': 'fragment', 'operation': 'operation'
    } -%}
    {%- set of_tracking_table = {
        'policyid': 'policy_id', 'sourcetablenumber': 'table_number', 'changefieldmap': 'field_map',
        'sourcefieldmap': 'field_map', 'recid': 'record_id', 'sourcerowid': 'record_id', 'partitionid': 'partition_id',
        'sourcepartitionid': 'partition_id', 'tenantid': 'tenant_id', 'username': 'user_name',
        'version': 'unused', 'usermisc': 'unused', 'misc': 'unused'
    } -%}
    {%- set found = {'metadata': {}, 'data': [], 'names': [], 'no_fields': []} -%}
    {%- for column in afterimage._existing_columns('openedge_change_table', relation) -%}
        {%- do found.names.append(column.name) -%}
        {%- set name = (column.name | lower | replace('-', '') | replace('_', ''))
            if column.name.startswith('_') else none -%}
        {%- if field_map is not none and column.name | lower == field_map | lower -%}
            {%- do found.metadata.update({'field_map': dict(column, names=[column.name])}) -%}
        {%- elif name in of_change_table -%}
            {%- do found.metadata.update({of_change_table[name]: dict(column, names=[column.name])}) -%}
        {%- elif name in of_tracking_table and column.name | lower not in declared | map('lower') -%}
            {%- set role = of_tracking_table[name] -%}
            {%- if role != 'field_map' or field_map is none -%}
                {#- A table that has landed since before an update of OpenEdge has old and new names. -#}
                {%- set other = found.metadata.get(role, column) -%}
                {%- if role == 'field_map' and other.type != column.type -%}
                    {%- do exceptions.raise_compiler_error(
                        "openedge_change_table: give the column with the field map as `field_map`. Two columns of "
                        ~ relation ~ " have its names, and unlike types. Got: " ~ other.name ~ ' (' ~ other.type
                        ~ ') and ' ~ column.name ~ ' (' ~ column.type ~ ')'
                    ) -%}
                {%- endif -%}
                {%- do found.metadata.update({role: dict(column, names=(other.names or []) + [column.name])}) -%}
            {%- endif -%}
        {%- else -%}
            {%- do found.data.append(column) -%}
            {%- do found.no_fields.append(column.name) if of_tracking_table.get(name) == 'record_id' -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro -%}
