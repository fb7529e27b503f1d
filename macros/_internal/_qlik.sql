{#- What only Qlik change tables need. -#}

{#- Checks the arguments of qlik_change_table and finds out how the table is laid out: the data columns in
    ordinal order, how many columns stand before them, and an expression for each header column (NULL where
    the task does not write it: each can be switched off in the task's settings). -#}
{%- macro _qlik_layout(relation, unique_key, columns, header_prefix, header_columns, mask_encoding) -%}
    {%- set macro_name = 'qlik_change_table' -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- if header_prefix is not string -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `header_prefix` must be a text, empty where Qlik's columns have no prefix. Got: "
            ~ header_prefix
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_number(macro_name, 'header_columns', header_columns) -%}
    {%- if mask_encoding is not none -%}
        {%- do afterimage._check_choice(
            macro_name, 'mask_encoding', mask_encoding, ['bytes', 'hex', 'hex_bytes']
        ) -%}
    {%- endif -%}
    {%- if afterimage._is_ahead_of([relation]) -%}
        {{ return(none) }}
    {%- endif -%}

    {#- In Qlik's own table the header stands first. A column that the landed table is partitioned by has moved behind
        the data; it counts where it is one of Qlik's. -#}
    {%- set of_qlik = afterimage._qlik_header_names() -%}
    {%- set found = namespace(header={}, data=[], types={}, leading=0, header_columns=0) -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- set name = afterimage._qlik_header_name(column.name, header_prefix) -%}
        {%- if name is not none -%}
            {%- do found.header.update({name: column}) -%}
            {%- set found.leading = found.leading + (1 if not found.data else 0) -%}
            {%- set found.header_columns = found.header_columns + (1 if not found.data or name in of_qlik else 0) -%}
        {%- else -%}
            {%- do found.data.append(column.name) -%}
            {%- do found.types.update({column.name: column.type}) -%}
        {%- endif -%}
    {%- endfor -%}

    {%- if not found.data and not found.header -%}
        {%- do afterimage._raise_no_columns(macro_name, relation) -%}
    {%- endif -%}
    {%- if not found.header -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " is not a Qlik change table: it has "
            ~ (
                'no columns with the prefix ' ~ header_prefix if header_prefix
                else 'none of the columns ' ~ of_qlik | join(', ')
            )
            ~ ". It has: " ~ found.data | join(', ')
        ) -%}
    {%- endif -%}
    {%- if found.leading == 0 and 'change_mask' in found.header and (header_columns is none or columns is none) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " does not begin with a header column, as Qlik's own table does, so nobody can"
            ~ " tell which columns the bits of " ~ header_prefix ~ "change_mask stand for. Say how many header columns"
            ~ " that table has (`header_columns`), and all its data columns in their order (`columns`). Got: "
            ~ header_columns ~ " and " ~ columns
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_known(macro_name, 'columns', columns, found.data) -%}
    {%- set columns = afterimage._as_spelled(columns or found.data, found.data) -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, columns) -%}

    {#- A list of all columns says in which order the source has them. A list of some cannot, so their places are those
        that they have in the table, unless that has an order of its own. -#}
    {%- set is_in_order = found.leading > 0 or 'change_mask' not in found.header -%}
    {%- set ordinals = found.data if is_in_order and columns | length < found.data | length else columns -%}
    {%- if columns | list != ordinals | select('in', columns) | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` leaves out columns, so those it names must stand in the order of the table: "
            ~ found.data ~ ". Got: " ~ columns
        ) -%}
    {%- endif -%}
    {%- if 'change_seq' not in found.header
        or ('change_oper' not in found.header and 'operation' not in found.header) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " must have the columns " ~ header_prefix ~ "change_seq and "
            ~ header_prefix ~ "change_oper (or " ~ header_prefix ~ "operation). With the `header_prefix` '"
            ~ header_prefix ~ "' it has: " ~ (found.header.keys() | list)
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
        'unique_key': afterimage._in_order(unique_key, columns),
        'types': found.types,
        'ordinals': ordinals,
        'header': expressions,
        'has_mask': 'change_mask' in found.header,
        'text_seq': afterimage._quote(found.header.change_seq.name) if found.header.change_seq.type == 'string' else '',
        'header_columns': header_columns if header_columns is not none else found.header_columns,
        'mask_as_text': 'hex(unmasked.change_mask)' if mask_is_binary else 'unmasked.change_mask',
    }) }}
{%- endmacro -%}


{#- The names that Qlik gives the header columns of a change table, behind the prefix. -#}
{%- macro _qlik_header_names() -%}
    {{ return([
        'change_seq', 'change_oper', 'change_mask', 'stream_position', 'operation', 'transaction_id', 'timestamp',
        'partition_name'
    ]) }}
{%- endmacro -%}


{#- The name of a header column behind its prefix, in lower case; none for a data column. Without a prefix the header
    columns are those that have one of Qlik's own names. -#}
{%- macro _qlik_header_name(name, prefix) -%}
    {%- set name = name | lower -%}
    {%- if not prefix -%}
        {{ return(name if name in afterimage._qlik_header_names() else none) }}
    {%- endif -%}
    {{ return(name[prefix | length:] if name.startswith(prefix | lower) else none) }}
{%- endmacro -%}


{#- The rows of the change table, for the intake: those of one change_seq are read together; load rows, and rows without
    a place, with those of the same key. (Zeros are the change_seq of load rows, or a change_seq as any other.) -#}
{%- macro _qlik_side(relation, layout) -%}
    {%- set header = layout.header -%}
    {%- set zeros = "'" ~ '0' * 35 ~ "'" -%}
    {%- set is_insert -%}
coalesce(nullif({{ header.change_oper }}, ''), 'I') = 'I' and coalesce({{ header.operation }}, 'INSERT') = 'INSERT'
    {%- endset -%}
    {%- set group -%}
if(
    {{ afterimage._qlik_has_place(header.change_seq) }}
    or ({{ header.change_seq }} <=> {{ zeros }} and not ({{ is_insert }})),
    {{ header.change_seq }},
    cast({{ afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) }} as string)
)
    {%- endset -%}
    {#- Of a trimmed column Spark cannot tell which files to leave out, so it is said of the column as well, where what
        begins with a blank is before all digits. -#}
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
        'known_others': "known.change_seq < '" ~ '0' * 34 ~ "1'",
        'time': afterimage._qlik_seq_time(header.change_seq),
        'keeps': 35,
        'latest': afterimage._qlik_latest_seq(),
    }) }}
{%- endmacro -%}


{#- The condition that a change_seq says where its row stands: 35 digits, and not the zeros that some landings make of
    the empty one of a full load. -#}
{%- macro _qlik_has_place(change_seq) -%}
    coalesce({{ change_seq }} rlike '^(?!0*$)[0-9]{35}$', false)
{%- endmacro -%}


{#- The last change_seq that counts as the newest. -#}
{%- macro _qlik_latest_seq() -%}
    {{ return(modules.re.sub('[^0-9]', '', afterimage._latest_time()) ~ '9' * 21) }}
{%- endmacro -%}


{#- The first change_seq of a second, which is in UTC whatever the session's time zone. -#}
{%- macro _qlik_seq_at(time) -%}
concat(date_format(to_utc_timestamp({{ time }}, current_timezone()), 'yyyyMMddHHmmss'), repeat('0', 21))
{%- endmacro -%}


{#- The time in a change_seq (`YYYYMMDDHHmmSShh` and a 19-digit counter), to a hundredth of a second; NULL if it is
    none. -#}
{%- macro _qlik_seq_time(change_seq) -%}
try_cast(
    concat(
        {%- for start in [1, 5, 7, 9, 11, 13, 15] %}
        substr({{ change_seq }}, {{ start }}, {{ 4 if start == 1 else 2 }}), '{{ '--T::.Z'[loop.index0] }}'
        {{- ',' if not loop.last }}
        {%- endfor %}
    ) as timestamp
)
{%- endmacro -%}


{#- What is said of a change that has no timestamp of its own. -#}
{%- macro _qlik_time_warning(change_seq) -%}
if(
    {{ afterimage._qlik_seq_time(change_seq) | indent(4) }} is null,
    'changed_at is unknown: neither timestamp nor change_seq has it',
    'changed_at is taken from change_seq'
)
{%- endmacro -%}


{#- Columns of an update that hold NULL although the mask says they did not change: what the source did not log
    (Qlik, "Limitations and considerations" of the Oracle source: columns without supplemental logging, LOBs above all,
    are NULL in the change table unless updated). NULL where there is no such column or no mask to tell by. -#}
{%- macro _qlik_absent_columns(columns, unique_key) -%}
    {%- set candidates = columns | reject('in', unique_key) | list -%}
    {%- if not candidates -%}
        {{ return('cast(null as array<string>)') }}
    {%- endif -%}
if(
    kind = 'update'
    and ({{ afterimage._qlik_any_absent(columns, unique_key) | indent(4) }}),
    array_compact(array(
        {%- for column in candidates %}
        if({{ afterimage._qlik_is_absent(column) }}, {{ afterimage._literal(column) }}, null)
        {%- if not loop.last %},{% endif %}
        {%- endfor %}
    )),
    null
)
{%- endmacro -%}


{#- The columns that differ from the before-image and that the mask does not flag, as a warning. NULL on either side
    contradicts nothing: Qlik writes it for what it did not capture. -#}
{%- macro _qlik_unflagged_warning(columns, types) -%}
    {%- set tests = {} -%}
    {%- for column in columns -%}
        {%- do tests.update({column: (
            '(' ~ afterimage._qlik_differs(column, types) ~ ' and not array_contains(flagged_columns, '
            ~ afterimage._literal(column) ~ '))'
        )}) -%}
    {%- endfor -%}
if(
    kind = 'update'
    and flagged_columns is not null
    and before_image is not null
    and (
        {%- for test in tests.values() %}
        {{ test }}{{ ' or' if not loop.last }}
        {%- endfor %}
    ),
    concat(
        'change_mask does not flag what changed: ',
        concat_ws(
            ', ',
            {%- for column, test in tests.items() %}
            if({{ test }}, {{ afterimage._literal(column) }}, null){{ ',' if not loop.last }}
            {%- endfor %}
        )
    ),
    null
)
{%- endmacro -%}


{#- The condition that a column has another value than in the before-image; NULL where it is NULL in one of them. -#}
{%- macro _qlik_differs(column, types, before='before_image', after='image') -%}
    {%- set name = '.' ~ afterimage._quote(column) -%}
    {{ return(
        afterimage._comparable(after ~ name, types[column]) ~ ' <> '
        ~ afterimage._comparable(before ~ name, types[column])
    ) }}
{%- endmacro -%}


{#- Warns where the masks of most updates that a run reads leave out what differs from their before-images, and says
    which number of header columns would fit. A landing that lost a header column shifts all bits. It looks at the first
    rows that Spark finds, so an update whose before-image is not among them is not looked at. A batch of fewer rows than
    that would tell little and cost most of its run; a table that was landed again is read as a whole. -#}
{%- macro _qlik_check_masks(relation, layout, mask_encoding, side) -%}
    {%- set sample = 1000 -%}
    {%- set rows = side.landed or side.rows -%}
    {%- set is_unit_test = relation.identifier.startswith('__dbt__cte__') -%}
    {%- set is_small = side.kind == 'new' and side['count'] < sample -%}
    {%- if not layout.has_mask or flags.WHICH not in ['run', 'build'] or is_unit_test or is_small -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set header = layout.header -%}
    {%- set is_update = "(" ~ header.change_oper ~ " <=> 'U' or " ~ header.operation ~ " <=> 'UPDATE')" -%}
    {%- set is_before = "(" ~ header.change_oper ~ " <=> 'B' or " ~ header.operation ~ " <=> 'BEFOREIMAGE')" -%}
    {%- set counted = layout.header_columns -%}
    {%- set query -%}
        with

        first_rows as (

            select
                {{ header.change_seq }} as landed_seq,
                {{ is_update }} as is_update,
                {{ header.change_mask }} as change_mask,
                {{ afterimage._struct(layout.ordinals) }} as image

            from {{ rows }} as landed
            where {{ is_update }} or {{ is_before }}
            limit {{ sample }}

        ),

        pairs as (

            select
                decode_change_mask(
                    first(if(is_update, change_mask, null), true), 0
                    {%- if mask_encoding is not none %}, '{{ mask_encoding }}'{% endif %}
                ) as ordinals,
                first(if(is_update, image, null), true) as after_image,
                first(if(is_update, null, image), true) as before_image

            from first_rows
            group by landed_seq
            having count_if(is_update) = 1 and count_if(not is_update) = 1

        ),

        differences as (

            select
                ordinals,
                array_compact(array(
                    {%- for column in layout.ordinals %}
                    if({{ afterimage._qlik_differs(column, layout.types, after='after_image') }}, {{ loop.index }}, null)
                    {{- ',' if not loop.last }}
                    {%- endfor %}
                )) as differing

            from pairs
            where ordinals is not null

        )

        select
            header_columns,
            count(*) as updates,
            count_if(size(array_except(transform(differing, k -> k + header_columns), ordinals)) = 0) as fitting

        from differences
        lateral view explode(sequence(0, {{ [20, counted + 5] | max }})) as header_columns
        where size(differing) > 0
        group by header_columns
        -- Of two numbers that fit alike, the one by which the masks flag less that did not change is the better.
        order by
            fitting desc,
            sum(size(filter(ordinals, k -> k > header_columns))) asc,
            abs(header_columns - {{ counted }}) asc
    {%- endset -%}
    {%- set candidates = run_query(query).rows -%}
    {%- for row in candidates if row['header_columns'] == counted and row['fitting'] * 2 < row['updates'] -%}
        {%- set best = candidates[0] -%}
        {%- do exceptions.warn(
            "qlik_change_table: the change masks contradict the before-images in " ~ (row['updates'] - row['fitting'])
            ~ " of " ~ row['updates'] ~ " updates of " ~ relation ~ ": they do not flag what changed. " ~ (
                "With `header_columns`=" ~ best['header_columns'] ~ " (now " ~ counted ~ "), " ~ best['fitting'] ~ " of "
                ~ best['updates'] ~ " fit: the landed table may have lost or gained a header column."
                if best['fitting'] * 2 > best['updates']
                else "No number of `header_columns` fits (now " ~ counted ~ "): check `mask_encoding` and the order of"
                ~ " `columns`."
            )
        ) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- The condition that an update lacks any column. -#}
{%- macro _qlik_any_absent(columns, unique_key) -%}
{%- for column in columns if column not in unique_key %}
{{ afterimage._qlik_is_absent(column) }}{{ ' or' if not loop.last }}
{%- else -%}
false
{%- endfor %}
{%- endmacro -%}


{#- The condition that a column is NULL in an update that did not touch it; NULL where there is no mask to tell by. -#}
{%- macro _qlik_is_absent(column) -%}
    {{ return(
        '(image.' ~ afterimage._quote(column) ~ ' is null and not array_contains(flagged_columns, '
        ~ afterimage._literal(column) ~ '))'
    ) }}
{%- endmacro -%}
