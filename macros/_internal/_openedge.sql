{#- What openedge_change_table is made of. -#}

{#- Checks the arguments and finds out what the tables hold: the data columns, the fields of the source table that they
    are (an array is one field, though its elements may be landed as columns), and for each metadata column the SQL that
    reads it, typed NULLs where a landing left it out. -#}
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
    {%- if field_map is not none -%}
        {%- do afterimage._check_text(macro_name, 'field_map', field_map) -%}
    {%- endif -%}
    {%- do afterimage._check_choice(
        macro_name, 'field_map_encoding', field_map_encoding, [none, 'bits', 'names', 'bytes', 'hex']
    ) -%}
    {%- do afterimage._check_choice(
        macro_name, 'field_map_bit_order', field_map_bit_order, ['high_first', 'low_first']
    ) -%}
    {%- do afterimage._check_choice(macro_name, 'split_order', split_order, ['zero_first', 'zero_last']) -%}
    {%- if not execute -%}
        {{ return(none) }}
    {%- endif -%}

    {%- set landed = afterimage._openedge_columns(relation, columns or [], field_map) -%}
    {%- set kept = afterimage._openedge_columns(tracking, [], field_map) if tracking is not none else none -%}
    {%- if not landed.data -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the columns of " ~ relation ~ " cannot be read. It must be a table that exists"
            ~ " (in a unit test: one in the schema of the model or of the target)."
        ) -%}
    {%- endif -%}
    {%- if kept is not none and 'sequence' not in kept.metadata -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `tracking` must have the columns _Change-Sequence and _Operation. " ~ tracking
            ~ " has: " ~ kept.names
        ) -%}
    {%- endif -%}
    {%- set has_changes = 'sequence' in landed.metadata -%}
    {%- if not has_changes and (tracking is none or policy_level not in [0, 1]) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " must have the column _Change-Sequence. (Policy levels 0 and 1 record no"
            ~ " values: with `policy_level` 0 or 1 and `tracking`, any table with the source table's columns will"
            ~ " do.) It has: " ~ landed.names
        ) -%}
    {%- endif -%}
    {%- if 'operation' not in (landed.metadata if has_changes else kept.metadata) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ (relation if has_changes else tracking) ~ " must have the column _Operation. It has: "
            ~ (landed.names if has_changes else kept.names)
        ) -%}
    {%- endif -%}
    {%- if source_table_number is none
        and ('table_number' in landed.metadata or 'table_number' in (kept.metadata if kept else {})) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": give `source_table_number`: _Change-Sequence counts the changes of each source table anew,"
            ~ " and "
            ~ (relation if 'table_number' in landed.metadata else tracking) ~ " holds those of several. Got: none"
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
    {%- set columns = afterimage._as_spelled(columns or names, names) -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, columns) -%}
    {#- A list of all columns says in which order the source has them; of some, their places are those in the table. -#}
    {%- set ordinals = columns if columns | length == names | length else names -%}
    {%- if columns | list != ordinals | select('in', columns) | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` leaves out columns, so those it names must stand in the order of the table: "
            ~ names ~ ". Got: " ~ columns
        ) -%}
    {%- endif -%}

    {%- set types = {} -%}
    {%- for column in landed.data -%}
        {%- do types.update({column.name: column.type}) -%}
    {%- endfor -%}
    {#- A change table and its tracking table are often landed as one, joined: then the tracking columns stand there. -#}
    {%- set source = kept if kept is not none else landed -%}
    {%- set details = ['policy_id', 'table_number', 'record_id', 'partition_id', 'tenant_id', 'user_name'] -%}
    {%- set found = namespace(tracks=tracking is not none) -%}
    {%- for role in details + ['field_map'] if role in source.metadata -%}
        {%- set found.tracks = true -%}
    {%- endfor -%}

    {%- set prefixed = {'image': [], 'tracking': []} -%}
    {%- for column in columns -%}
        {%- do prefixed.image.append('image.' ~ afterimage._quote(column)) -%}
    {%- endfor -%}
    {%- for role in details -%}
        {%- do prefixed.tracking.append('tracking.' ~ role) -%}
    {%- endfor -%}

    {{ return({
        'relation': relation,
        'tracking_relation': tracking,
        'tracks': found.tracks,
        'has_changes': has_changes,
        'columns': columns,
        'types': types,
        'unique_key': afterimage._as_spelled(unique_key, columns),
        'fields': afterimage._openedge_fields(ordinals, columns),
        'change': afterimage._openedge_expressions(landed.metadata),
        'tracking': afterimage._openedge_expressions(source.metadata),
        'details': details,
        'image_fields': prefixed.image,
        'tracking_fields': prefixed.tracking,
        'field_map_type': source.metadata.field_map.type if 'field_map' in source.metadata else 'string',
        'field_map_encoding': field_map_encoding,
        'field_map_bit_order': field_map_bit_order,
        'source_table_number': source_table_number,
        'policy_level': policy_level,
        'partition_resets': partition_resets,
    }) }}
{%- endmacro -%}


{#- The columns of a relation: metadata by its role, and data. Metadata is told by its names, with which landings take
    liberties (`_Change_Sequence`, `_Array-Index`): a source table may well have fields that begin with an underscore. -#}
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
    {%- set found = {'metadata': {}, 'data': [], 'names': []} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do found.names.append(column.name) -%}
        {%- set name = (column.name | lower | replace('-', '') | replace('_', ''))
            if column.name.startswith('_') else none -%}
        {%- if field_map is not none and column.name | lower == field_map | lower -%}
            {%- do found.metadata.update({'field_map': column}) -%}
        {%- elif name in of_change_table -%}
            {%- do found.metadata.update({of_change_table[name]: column}) -%}
        {%- elif name in of_tracking_table and column.name | lower not in declared | map('lower') -%}
            {%- if of_tracking_table[name] != 'field_map' or field_map is none -%}
                {%- do found.metadata.update({of_tracking_table[name]: column}) -%}
            {%- endif -%}
        {%- else -%}
            {%- do found.data.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro -%}


{#- The SQL of each metadata column. -#}
{%- macro _openedge_expressions(metadata) -%}
    {%- set expressions = {} -%}
    {%- for role, as_what in {
        'sequence': 'text', 'operation': 'text', 'position': 'count', 'array_index': 'count', 'fragment': 'count',
        'time': 'time', 'transaction_id': 'text', 'policy_id': 'text', 'table_number': 'bigint',
        'record_id': 'bigint', 'partition_id': 'bigint', 'tenant_id': 'bigint', 'user_name': 'text',
        'field_map': 'as landed'
    }.items() -%}
        {%- set has_it = role in metadata -%}
        {%- set column = afterimage._quote(metadata[role].name) if has_it else none -%}
        {%- set type = metadata[role].type if has_it else none -%}
        {%- if as_what == 'count' -%}
            {%- set sql = 'coalesce(cast(' ~ column ~ ' as int), 0)' if has_it else '0' -%}
        {%- elif as_what == 'text' -%}
            {%- set sql = 'trim(cast(' ~ (column or 'null') ~ ' as string))' -%}
        {%- elif as_what == 'bigint' -%}
            {%- set sql = 'cast(' ~ (column or 'null') ~ ' as bigint)' -%}
        {%- elif as_what == 'time' and type == 'string' -%}
            {%- set sql = afterimage._openedge_time(column) -%}
        {%- elif as_what == 'time' -%}
            {%- set sql = 'cast(' ~ (column or 'null') ~ ' as timestamp)' -%}
        {%- else -%}
            {%- set sql = column or 'cast(null as string)' -%}
        {%- endif -%}
        {%- do expressions.update({role: sql}) -%}
    {%- endfor -%}
    {#- A bare column, where it is a number, so that a bound on it prunes files. -#}
    {%- if 'sequence' in metadata and metadata.sequence.type in ['bigint', 'int'] -%}
        {%- do expressions.update({'sequence_number': afterimage._quote(metadata.sequence.name)}) -%}
    {%- else -%}
        {%- do expressions.update({'sequence_number': 'cast(' ~ expressions.sequence ~ ' as decimal(19, 0))'}) -%}
    {%- endif -%}
    {%- do expressions.update({'has_time': 'time' in metadata, 'has_table_number': 'table_number' in metadata}) -%}
    {{ return(expressions) }}
{%- endmacro -%}


{#- A time with its zone as text: of SQL (`2024-03-01 10:00:00:123 + 02:00`) or ISO. Without a zone it is UTC. -#}
{%- macro _openedge_time(column) -%}
cast(
    regexp_replace(
        regexp_replace(trim({{ column }}), '^(.{10})[ T](.{8}):([0-9])', '$1 $2.$3'),
        ' *([+-]) *([0-9]{2}:[0-9]{2})$',
        '$1$2'
    ) as timestamp
)
{%- endmacro -%}


{#- The fields of the source table, numbered as the field map and `_Continuation-Position` number them, each with those
    of its columns that were asked for. The elements of an array may be columns of their own, `name__1` to `name__n`. -#}
{%- macro _openedge_fields(ordinals, columns) -%}
    {%- set fields = [] -%}
    {%- for name in ordinals -%}
        {%- set element = modules.re.match('^(.+)__([0-9]+)$', name) -%}
        {%- set base = element.group(1) if element else name -%}
        {%- set place = element.group(2) | int if element else 0 -%}
        {%- set previous = fields[-1] if fields else none -%}
        {%- if place > 1 and previous and previous.base == base and previous.names | length == place - 1 -%}
            {%- do previous.names.append(name) -%}
        {%- else -%}
            {%- do fields.append({
                'number': fields | length + 1, 'base': base if place == 1 else none, 'names': [name]
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for field in fields -%}
        {%- do field.update({
            'name': field.base if field.names | length > 1 else field.names[0],
            'is_array': field.names | length > 1,
            'columns': field.names | select('in', columns) | list,
        }) -%}
    {%- endfor -%}
    {{ return(fields) }}
{%- endmacro -%}


{#- Where an incremental run starts to read: the lowest sequence among what is newer than the newest change taken in,
    less the look-back; none for all. A transaction that commits late brings sequences that are lower than those already
    read, and the rows of one sequence must be read together, hence a bound on sequences and not on times. -#}
{%- macro _openedge_lowest_sequence(layout) -%}
    {%- set relations = [] -%}
    {%- if layout.has_changes -%}
        {%- do relations.append((layout.relation, layout.change)) -%}
    {%- endif -%}
    {%- if layout.tracking_relation is not none -%}
        {%- do relations.append((layout.tracking_relation, layout.tracking)) -%}
    {%- endif -%}
    {%- set untimed = relations | rejectattr('1.has_time') | list -%}
    {%- if not afterimage._is_incremental() or untimed -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set hours = afterimage._setting('afterimage_lookback_hours') -%}
    {%- do afterimage._check_number('openedge_change_table', 'var afterimage_lookback_hours', hours) -%}
    {%- set newest -%}
        select cast(max(changed_at) - interval {{ hours }} hours as string)
        from {{ this }}
        where reject_reason is null
    {%- endset -%}
    {%- set start = run_query(newest).columns[0].values()[0] -%}
    {%- if start is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set query -%}
        select cast(min(sequence) as string)
        from (
            {%- for relation, expressions in relations %}
            select cast({{ expressions.sequence_number }} as decimal(19, 0)) as sequence
            from {{ relation }}
            where
                ({{ expressions.time }} >= timestamp '{{ start }}' or {{ expressions.time }} is null)
                and {{ afterimage._openedge_filter(layout, expressions, none) }}
            {{ 'union all' if not loop.last }}
            {%- endfor %}
        ) as newer_rows
    {%- endset -%}
    {#- Past every int64 where nothing is new. -#}
    {{ return(run_query(query).columns[0].values()[0] or '9223372036854775808') }}
{%- endmacro -%}


{#- Which rows of the change table or the tracking table are this source table's, and new enough. -#}
{%- macro _openedge_filter(layout, expressions, lowest) -%}
    {%- set conditions = [] -%}
    {%- if expressions is sameas layout.change and not layout.has_changes -%}
        {{ return('false') }}
    {%- endif -%}
    {%- if expressions.has_table_number -%}
        {#- A row of the change table cannot be another table's just because it does not say whose it is. -#}
        {%- set number = layout.source_table_number | string -%}
        {%- do conditions.append(
            ('coalesce(' ~ expressions.table_number ~ ', ' ~ number ~ ')' if expressions is sameas layout.change
            else expressions.table_number) ~ ' = ' ~ number
        ) -%}
    {%- endif -%}
    {%- if lowest is not none -%}
        {#- A malformed sequence has no place in the order: such rows are read each time. -#}
        {%- do conditions.append(
            '(' ~ expressions.sequence_number ~ ' >= ' ~ lowest ~ ' or not coalesce(' ~ expressions.sequence
            ~ " rlike '^[0-9]{1,19}$', false))"
        ) -%}
    {%- endif -%}
    {{ return(conditions | join(' and ') or 'true') }}
{%- endmacro -%}


{#- A CTE that adds to raw rows what they are: `kind`, `change_group` (the sequence; a malformed row is a group of its
    own) and `row_hash`. xxhash64 skips NULLs; saying which columns hold one keeps (NULL, 1) and (1, NULL) apart. -#}
{%- macro _openedge_identified(rows, values) -%}
select
    *,
    if(
        has_seq,
        lpad(sequence, 19, '0'),
        concat('unordered-', md5(to_json(struct(*))))
    ) as change_group,
    xxhash64(
        {%- for value in values %}
        {{ value }},
        isnull({{ value }}){{ ',' if not loop.last }}
        {%- endfor %}
    ) as row_hash

from (
    select
        *,
        -- At the most 19 digits, as in an int64.
        coalesce(sequence rlike '^[0-9]{1,19}$', false) as has_seq,
        case operation
            when '1' then 'insert'
            when '2' then 'delete'
            when '3' then 'before_image'
            when '4' then 'update'
            when '5' then 'field deleted'
            when '6' then 'partition dropped'
            when '7' then 'partition truncated'
            when '8' then 'partition deallocated'
            when '9' then 'tenant partition deallocated'
            when '10' then 'tenant partition dropped'
            when '11' then 'partition merged'
            when '12' then 'field added'
            else 'unknown'
        end as kind

    from {{ rows }}
) as told
{%- endmacro -%}


{%- macro _openedge_resets() -%}
    {{ return(
        "('partition dropped', 'partition truncated', 'partition deallocated', 'tenant partition deallocated',"
        ~ " 'tenant partition dropped')"
    ) }}
{%- endmacro -%}


{#- The declared order of changes with one sequence. -#}
{%- macro _openedge_precedence() -%}
case kind when 'insert' then 1 when 'update' then 2 when 'before_image' then 2 when 'delete' then 3 else 4 end
{%- endmacro -%}


{#- Whether a column is the one that a split record broke in: its two pieces belong together. -#}
{%- macro _openedge_is_broken(layout, field, column) -%}
    {%- if field.is_array -%}
        {{ return(
            'is_fragmented and highest_position = ' ~ field.number ~ ' and split_index = '
            ~ (field.names.index(column) + 1)
        ) }}
    {%- elif layout.types[column] in ['string', 'binary'] -%}
        {{ return('(is_fragmented or split_index > 0) and highest_position = ' ~ field.number) }}
    {%- endif -%}
    {{ return('false') }}
{%- endmacro -%}


{#- The struct of a record that was split in two: each column from the part that has it. -#}
{%- macro _openedge_joined(layout) -%}
    {%- set columns = [] -%}
    {%- for field in layout.fields -%}
        {%- for name in field.columns -%}
            {%- do columns.append({'name': name, 'field': field}) -%}
        {%- endfor -%}
    {%- endfor -%}
named_struct(
    {%- for column in columns %}
    {%- set is_text = layout.types[column.name] == 'string' %}
    {%- set first = 'image.' ~ afterimage._quote(column.name) %}
    {%- set second = 'next_part.' ~ first %}
    {{ afterimage._literal(column.name) }},
    {%- if is_text or layout.types[column.name] == 'binary' %}
    case
        {%- if is_text and not column.field.is_array %}
        when split_index > 0 and highest_position = {{ column.field.number }}
            then coalesce(whole_array, {{ first }}, {{ second }})
        {%- endif %}
        when {{ afterimage._openedge_is_broken(layout, column.field, column.name) }}
            then coalesce(concat({{ first }}, {{ second }}), {{ first }}, {{ second }})
        else coalesce({{ first }}, {{ second }})
    end
    {%- else %}
    coalesce({{ first }}, {{ second }})
    {%- endif %}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)
{%- endmacro -%}


{#- The array field that a record broke in, where it was landed as text: the elements that one part holds
    (a `;` parts them unless a `~` of its own stands before it: OpenEdge SQL Reference, "PRO_ARR_ESCAPE"). -#}
{%- macro _openedge_array_elements(layout, part) -%}
    {%- set texts = [] -%}
    {%- for field in layout.fields if not field.is_array and field.columns -%}
        {%- if layout.types[field.columns[0]] == 'string' -%}
            {%- do texts.append(field) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not texts -%}
        {{ return('cast(null as array<string>)') }}
    {%- endif -%}
if(
    is_split and split_index > 0,
    split(
        case highest_position
            {%- for field in texts %}
            when {{ field.number }} then {{ part }}.{{ afterimage._quote(field.columns[0]) }}
            {%- endfor %}
        end,
        '(?<=(?:^|[^~])(?:~~){0,99});'
    ),
    null
)
{%- endmacro -%}


{#- Why two parts are no record; NULL where they are. -#}
{%- macro _openedge_split_reason(layout) -%}
    {%- set text_fields = [] -%}
    {%- set conflicts = [] -%}
    {%- for field in layout.fields -%}
        {%- if layout.types[field.names[0]] in ['string', 'binary'] -%}
            {%- do text_fields.append(field.number) -%}
        {%- endif -%}
        {%- for column in field.columns -%}
            {%- set first = 'image.' ~ afterimage._quote(column) -%}
            {%- do conflicts.append(
                'if(not (' ~ afterimage._openedge_is_broken(layout, field, column) ~ ') and ' ~ first
                ~ ' <> next_part.' ~ first ~ ', ' ~ afterimage._literal(column) ~ ', null)'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
case
    when is_fragmented and highest_position not in ({{ text_fields | join(', ') or 0 }})
        then concat('split record: field ', highest_position, ' is not text, so it cannot be in both parts')
    when array_size(first_elements) < split_index - if(is_fragmented, 0, 1)
        then concat('split record: the first part ends before array element ', split_index)
    else concat('split record: both parts have a value for ', nullif(array_join(array_compact(array(
        {{ conflicts | join(',\n        ') }}
    )), ', '), ''))
end
{%- endmacro -%}


{#- Whether a lone row with a position is half a record, and not one that the SQL engine has put together: its columns on
    one side of the position are all NULL. -#}
{%- macro _openedge_is_half(layout) -%}
    {%- set before = [] -%}
    {%- set after = [] -%}
    {%- for field in layout.fields -%}
        {%- for column in field.columns -%}
            {%- set value = 'image.' ~ afterimage._quote(column) -%}
            {%- do before.append('(position > ' ~ field.number ~ ' and ' ~ value ~ ' is not null)') -%}
            {%- do after.append('(position < ' ~ field.number ~ ' and ' ~ value ~ ' is not null)') -%}
        {%- endfor -%}
    {%- endfor -%}
not (
    ({{ before | join(' or ') }})
    and ({{ after | join(' or ') }})
)
{%- endmacro -%}


{#- The CTE that decodes each distinct field map once. Text of 0 and 1 is bits, other text the names that the SQL helper
    CDC_get_changed_columns gives. -#}
{%- macro _openedge_field_maps(layout) -%}
    {%- set encoding = layout.field_map_encoding -%}
    {%- set is_binary = layout.field_map_type == 'binary' -%}
    {%- set bits = encoding or ('bytes' if is_binary else 'bits') -%}
    {%- set all_names = [] -%}
    {%- for field in layout.fields -%}
        {%- do all_names.append(field.name | lower | replace('-', '_')) -%}
    {%- endfor -%}
select
    field_map,
    flatten(array_compact(array(
        {%- for field in layout.fields if field.columns %}
        if(
            array_contains(positions, {{ field.number }})
            or array_contains(field_names, {{ afterimage._literal(field.name | lower | replace('-', '_')) }}),
            {{ afterimage._string_array(field.columns) }},
            null
        ){{ ',' if not loop.last }}
        {%- endfor %}
    ))) as flagged_columns,
    if(
        positions is not null,
        cast(filter(positions, k -> k > {{ layout.fields | length }}) as array<string>),
        array_except(field_names, {{ afterimage._string_array(all_names) }})
    ) as unknown_fields,
    positions is not null or field_names is not null as is_decoded

from (
    select
        field_map,
        positions,
        {%- if encoding == 'names' or (encoding is none and not is_binary) %}
        if(
            positions is null,
            transform(
                filter(split(field_map, ';'), name -> trim(name) <> ''),
                name -> lower(replace(trim(name), '-', '_'))
            ),
            null
        ) as field_names
        {%- else %}
        cast(null as array<string>) as field_names
        {%- endif %}

    from (
        select
            field_map,
            {%- if encoding == 'names' %}
            cast(null as array<int>) as positions
            {%- else %}
            decode_field_map(field_map, '{{ bits }}', '{{ layout.field_map_bit_order }}') as positions
            {%- endif %}

        from (
            select distinct field_map
            from tracking_rows
            where {{ 'length(field_map) > 0' if is_binary else "trim(field_map) <> ''" }}
        ) as distinct_maps
    ) as positioned
) as decoded
{%- endmacro -%}


{#- Why a change without values is none that could be applied: WHEN branches. -#}
{%- macro _openedge_no_data_reasons(layout) -%}
when kind in ('insert', 'update', 'delete') and not has_change_row
    {%- if layout.policy_level in [2, 3] %}
    then concat('change row missing: the tracking table has this change, of record ', coalesce(tracking.record_id, '?'))
    {%- else %}
    then concat('row touched: record ', coalesce(tracking.record_id, '?'), ', of which no values were recorded')
    {%- endif %}
when kind in ('field deleted', 'field added') then concat(kind, ': this changed the table, and no row')
when kind = 'partition merged' then concat(kind, ': partition ', coalesce(tracking.partition_id, '?'))
{%- if layout.partition_resets == 'reject' %}
when kind in {{ afterimage._openedge_resets() }}
    then concat(
        kind, ': the rows of partition ', coalesce(tracking.partition_id, '?'), ' are gone, and nothing says which'
    )
{%- endif %}
{%- endmacro -%}


{%- macro _openedge_warnings(layout) -%}
nullif(array_compact(array(
    if(changed_at is null, '_Time-Stamp is missing or cannot be read', null),
    if(is_tied, 'another change of this key has the same change_seq', null),
    if(
        kind = 'update' and size(unknown_fields) > 0,
        concat('the field map has what is no field: ', array_join(unknown_fields, ', ')),
        null
    ),
    if(
        kind = 'update' and not is_decoded,
        concat(
            'the field map cannot be decoded: ',
            {{ 'hex(field_map)' if layout.field_map_type == 'binary' else 'field_map' }}
        ),
        null
    ),
    if(
        size(array_except(differing_columns, changed_columns)) > 0,
        concat(
            'the field map leaves out what changed: ', array_join(array_except(differing_columns, changed_columns), ', ')
        ),
        null
    ),
    if(
        kind = 'update' and image is not null and before_image is null
        and arrays_overlap(changed_columns, {{ afterimage._string_array(layout.unique_key) }}),
        'the key changed, but without a before-image the old key is unknown',
        null
    ),
    {%- if layout.policy_level == 3 %}
    if(
        kind = 'update' and image is not null and before_image is null and before_reason is null,
        'no before-image, though policy level 3 records one',
        null
    ),
    {%- endif %}
    {%- if layout.tracking_relation is not none %}
    if(has_change_row and has_seq and tracked_kind is null, 'no row in the tracking table', null),
    {%- endif %}
    if(
        has_change_row and if(tracked_kind = 'before_image', 'update', tracked_kind)
        <> if(kind = 'before_image', 'update', kind),
        concat('the tracking table has another operation: ', coalesce(tracked_operation, 'NULL')),
        null
    ),
    if(before_reason is not null, concat('before-image left out: ', before_reason), null)
)), cast(array() as array<string>))
{%- endmacro -%}


{#- `a.x is null or a.y is null`. -#}
{%- macro _openedge_any_null(prefix, columns) -%}
    {%- set conditions = [] -%}
    {%- for column in columns -%}
        {%- do conditions.append(prefix ~ '.' ~ afterimage._quote(column) ~ ' is null') -%}
    {%- endfor -%}
    {{ return(conditions | join(' or ')) }}
{%- endmacro -%}
