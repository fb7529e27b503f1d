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


{#- What an incremental run reads: {condition, from, known_within}; none for all, a condition of none for nothing. -#}
{%- macro _qlik_unread(relation, layout, intake) -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if intake.kind == 'unknown' -%}
        {{ return(afterimage._qlik_unread_minutes_since(relation, layout)) }}
    {%- endif -%}
    {%- set landed = afterimage._qlik_landed(layout, intake) if intake.kind == 'new' else none -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return({'condition': none}) }}
    {%- endif -%}
    {%- do afterimage._check_retention_gap(
        'qlik_change_table', relation, layout.header.change_seq, afterimage._qlik_has_place(layout.header.change_seq),
        afterimage._newest_place(35, at_most=afterimage._qlik_latest_seq())
    ) -%}
    {{ return(landed) }}
{%- endmacro -%}


{#- What has landed, and the earlier rows that are looked at with it: those of the same change_seqs; for load rows, and
    rows without a place, those of the same keys. (Zeros are the change_seq of load rows, or a change_seq as any other.) -#}
{%- macro _qlik_landed(layout, intake) -%}
    {%- set header = layout.header -%}
    {%- set change_seq = header.change_seq -%}
    {%- set has_place = afterimage._qlik_has_place(change_seq) -%}
    {%- set extent = afterimage._intake_extent(intake, change_seq, has_place, 8) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set conditions = [] -%}
    {%- set known = [] -%}
    {%- for first, last in extent.ranges -%}
        {#- Of a trimmed column Spark cannot tell which files to leave out, so it is said of the column as well. -#}
        {%- do conditions.append(
            '(' ~ afterimage._qlik_not_before(layout, first)
            ~ (' and ' ~ layout.text_seq ~ " <= '" ~ last ~ "~'" if layout.text_seq else '')
            ~ ' and ' ~ change_seq ~ " <= '" ~ last ~ "')"
        ) -%}
        {#- Changes that share a place have a suffix. -#}
        {%- do known.append("known.change_seq between '" ~ first ~ "' and '" ~ last ~ ".999'") -%}
    {%- endfor -%}
    {%- if conditions and intake.landed -%}
        {%- set conditions = ['((' ~ conditions | join(' or ') ~ ') and ' ~ change_seq ~ ' in (select ' ~ change_seq
            ~ ' from ' ~ intake.landed ~ ' as landed where ' ~ has_place ~ '))'] -%}
    {%- endif -%}
    {%- if extent.others -%}
        {%- set condition = 'not ' ~ has_place -%}
        {%- if intake.landed -%}
            {%- set key_hash = afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) -%}
            {%- set condition -%}
                (
                    not {{ has_place }}
                    and (
                        {{ key_hash | indent(24) }} in (
                            select {{ key_hash | indent(28) }} from {{ intake.landed }} as landed where not {{ has_place }}
                        )
                        or (
                            {{ change_seq }} = '{{ '0' * 35 }}'
                            and not (
                                coalesce(nullif({{ header.change_oper }}, ''), 'I') = 'I'
                                and coalesce({{ header.operation }}, 'INSERT') = 'INSERT'
                            )
                        )
                    )
                )
            {%- endset -%}
        {%- endif -%}
        {%- do conditions.append(condition) -%}
        {%- do known.append('not (' ~ afterimage._qlik_known_has_place('known.change_seq') ~ ')') -%}
    {%- endif -%}
    {{ return({
        'condition': conditions | join(' or '),
        'from': none,
        'known_within': known | join(' or '),
    }) }}
{%- endmacro -%}


{#- The same for a raw table that cannot say what has landed: {condition, from}. Of the time
    since the newest change_seq taken in, less the look-back, it is the minutes whose rows are not those that the table
    has accounted for, from the first such minute to the last, and the rows without a place in time where they are
    others than before. Found out while compiling, so that the bounds are literals and leave out files. -#}
{%- macro _qlik_unread_minutes_since(relation, layout) -%}
    {%- set change_seq = layout.header.change_seq -%}
    {%- set hours = afterimage._setting('afterimage_lookback_hours') -%}
    {%- do afterimage._check_number('qlik_change_table', 'var afterimage_lookback_hours', hours) -%}
    {%- set newest = afterimage._newest_place(35, at_most=afterimage._qlik_latest_seq()) -%}
    {%- if newest is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- do afterimage._check_retention_gap(
        'qlik_change_table', relation, change_seq, afterimage._qlik_has_place(change_seq), newest
    ) -%}
    {%- set start_time = afterimage._qlik_seq_time(afterimage._literal(newest)) ~ ' - interval ' ~ hours ~ ' hours' -%}
    {%- set start = run_query('select ' ~ afterimage._qlik_seq_at(start_time)).columns[0].values()[0] -%}
    {%- if start is none -%}
        {{ return(none) }}
    {%- endif -%}

    {#- As a rule all that has landed since is newer, or nothing has. Totals tell that, at less than half of the cost of
        minutes. -#}
    {%- set totals = run_query(afterimage._qlik_totals(relation, layout, start, newest)).rows[0] -%}
    {%- if totals[0] -%}
        {%- set unread = [newest[:12] if totals[1] else none, '9' * 12, false, totals[2]] -%}
    {%- else -%}
        {%- set unread = run_query(afterimage._qlik_unread_minutes(relation, layout, start)).rows[0] -%}
    {%- endif -%}
    {#- As many rows without a place as before may still be others: a table that was loaded anew. -#}
    {%- set has_others = unread[2] or (unread[3] and run_query(
        afterimage._qlik_differing_images(relation, layout)
    ).columns[0].values()[0]) -%}
    {%- set conditions = [] -%}
    {%- if unread[0] -%}
        {%- do conditions.append(
            '(' ~ afterimage._qlik_not_before(layout, unread[0] ~ '0' * 23) ~ ' and ' ~ change_seq ~ " <= '" ~ unread[1]
            ~ '9' * 23 ~ "')"
        ) -%}
    {%- endif -%}
    {%- if has_others -%}
        {%- do conditions.append('not ' ~ afterimage._qlik_has_place(change_seq)) -%}
    {%- endif -%}
    {{ return({
        'condition': conditions | join(' or ') or none,
        'from': unread[0] ~ '0' * 23 if unread[0] else '9' * 35,
    }) }}
{%- endmacro -%}


{#- A query that says of the rows that an incremental run looks at whether those up to the newest change_seq are as many
    as were taken in, with the same change_seqs; whether those after it are others; and whether some have no place. -#}
{%- macro _qlik_totals(relation, layout, start, newest) -%}
    {%- set sides = {
        'landed': {
            'table': relation,
            'condition': afterimage._qlik_landed_since(layout, start),
            'seq': layout.header.change_seq,
            'rows': '1',
        },
        'known': {
            'table': this,
            'condition': afterimage._qlik_known_since(start),
            'seq': 'left(change_seq, 35)',
            'rows': 'source_rows',
        },
    } -%}
    {%- set sums = {
        'older_rows': 'if(is_newer, 0, row_count)',
        'older_hashes': 'if(is_newer, 0, row_count * cast(hash(place) as bigint))',
        'newer_rows': 'if(is_newer, row_count, 0)',
        'newer_hashes': 'if(is_newer, row_count * cast(hash(place) as bigint), 0)',
    } -%}
select
    landed.older_rows <=> known.older_rows and landed.older_hashes <=> known.older_hashes as is_known_so_far,
    not (landed.newer_rows <=> known.newer_rows and landed.newer_hashes <=> known.newer_hashes) as has_newer,
    landed.others > 0 as has_others

from
    {%- for side, read in sides.items() %}
    {{ 'cross join ' if not loop.first }}(
        select
            {%- for name, term in sums.items() %}
            sum({{ term }}) as {{ name }},
            {%- endfor %}
            count_if(place = '') as others

        from (
            select
                place,
                row_count,
                place > '{{ newest }}' as is_newer

            from (
                select
                    if(
                        {{ afterimage._qlik_known_has_place(read.seq) }} and {{ read.seq }} <= '{{ '9' * 35 }}',
                        {{ read.seq }},
                        ''
                    ) as place,
                    {{ read.rows }} as row_count

                from {{ read.table }}
                where {{ read.condition }}
            ) as placed
        ) as compared
    ) as {{ side }}
    {%- endfor %}
{%- endmacro -%}


{#- A query for the first and the last minute of which not the rows that were taken in have landed, with the same
    change_seqs; whether it is others that have no place; and whether it is as many. -#}
{%- macro _qlik_unread_minutes(relation, layout, start) -%}
with

landed as (

    select
        if({{ afterimage._qlik_has_place('change_seq') }}, left(change_seq, 12), '') as minute,
        count(*) as rows_of_minute,
        sum(cast(hash(change_seq) as bigint)) as hashes

    from (
        select {{ layout.header.change_seq }} as change_seq from {{ relation }}
        where {{ afterimage._qlik_landed_since(layout, start) }}
    ) as raw_rows
    group by 1

),

known as (

    select
        if({{ afterimage._qlik_known_has_place() }}, left(change_seq, 12), '') as minute,
        sum(source_rows) as rows_of_minute,
        sum(hash(left(change_seq, 35)) * cast(source_rows as bigint)) as hashes

    from {{ this }}
    where {{ afterimage._qlik_known_since(start) }}
    group by 1

)

select
    min(if(is_unread and minute <> '', minute, null)) as first_minute,
    max(if(is_unread, minute, null)) as last_minute,
    coalesce(max(is_unread and minute = ''), false) as has_unread_others,
    coalesce(max(not is_unread and minute = ''), false) as has_as_many_others

from (
    select
        landed.minute,
        not (
            landed.rows_of_minute <=> known.rows_of_minute
            and (landed.minute = '' or landed.hashes <=> known.hashes)
        ) as is_unread

    from landed
    left outer join known
        on landed.minute = known.minute
) as compared
{%- endmacro -%}


{#- The condition on landed rows that an incremental run looks at them: those of the look-back, and those without a
    place, of which the length tells at a fifth of what the regular expression costs. (What has 35 characters and is no
    number counts as being of the time that it begins with.) -#}
{%- macro _qlik_landed_since(layout, start) -%}
    {%- set change_seq = layout.header.change_seq -%}
    (
        {{ afterimage._qlik_not_before(layout, start) }}
        or not coalesce(length({{ change_seq }}) = 35 and {{ afterimage._qlik_known_has_place(change_seq) }}, false)
    )
{%- endmacro -%}


{#- The same condition on what earlier runs have taken in. -#}
{%- macro _qlik_known_since(start) -%}
    (change_seq >= '{{ start }}' or not ({{ afterimage._qlik_known_has_place() }}))
{%- endmacro -%}


{#- The condition that a change_seq says where its row stands: 35 digits, and not the zeros that some landings make of
    the empty one of a full load. -#}
{%- macro _qlik_has_place(change_seq) -%}
    coalesce({{ change_seq }} rlike '^(?!0*$)[0-9]{35}$', false)
{%- endmacro -%}


{#- The same condition on a change that staging has taken in: its change_seq is empty or begins with 35 digits, so a
    comparison tells, which Spark can leave out files by. Of what has landed it tells the zeros. -#}
{%- macro _qlik_known_has_place(change_seq='change_seq') -%}
    {{ change_seq }} >= '{{ '0' * 34 }}1'
{%- endmacro -%}


{#- The condition that a row's change_seq is not before a place. Of a trimmed column Spark cannot tell which files to
    leave out, so it is said of the column as well, where what begins with a blank is before all digits. -#}
{%- macro _qlik_not_before(layout, place) -%}
    {%- if layout.text_seq -%}
        ({{ layout.text_seq }} >= '{{ place }}' or {{ layout.text_seq }} < '0') and {# -#}
    {%- endif -%}
    {{ layout.header.change_seq }} >= '{{ place }}'
{%- endmacro -%}


{#- A query that says whether the rows without a place in time hold other values than those that were taken in. -#}
{%- macro _qlik_differing_images(relation, layout) -%}
select not (landed.hashes <=> known.hashes) as is_other

from (
    select sum(shiftright({{ afterimage._hash_of_values(afterimage._quoted(layout.columns)) }}, 32)) as hashes
    from {{ relation }}
    where not {{ afterimage._qlik_has_place(layout.header.change_seq) }}
) as landed
cross join (
    select
        sum(
            shiftright({{ afterimage._hash_of_values(afterimage._quoted(layout.columns, 'image.')) }}, 32) * source_rows
        ) as hashes

    from (
        select
            coalesce(`after`, `before`) as image,
            source_rows

        from {{ this }}
        where not ({{ afterimage._qlik_known_has_place() }})
    ) as changes
) as known
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
    rows that Spark finds, so an update whose before-image is not among them is not looked at. -#}
{%- macro _qlik_check_masks(relation, layout, mask_encoding, condition, rows) -%}
    {%- set is_unit_test = relation.identifier.startswith('__dbt__cte__') -%}
    {%- if not layout.has_mask or flags.WHICH not in ['run', 'build'] or is_unit_test -%}
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
            where
                ({{ is_update }} or {{ is_before }})
                {%- if condition %}
                and ({{ condition }})
                {%- endif %}
            limit 1000

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
