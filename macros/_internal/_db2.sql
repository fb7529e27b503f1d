{#- What the sources of Db2 share: change data (CD) and consistent change data (CCD) tables, and the log table of the
    text index. -#}

{#- Checks the arguments that say how a CD or CCD table is laid out, and finds out the rest: the data columns, the
    before-image column of each, and an expression for each IBMSNAP column. -#}
{%- macro _db2_layout(macro_name, relation, unique_key, columns, before_prefix) -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- if before_prefix is not none and (before_prefix is not string or before_prefix | length > 4) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `before_prefix` must be a text of up to 4 characters, or none where the table has no"
            ~ " before-images. Got: " ~ before_prefix
        ) -%}
    {%- endif -%}
    {%- if afterimage._is_ahead_of([relation]) -%}
        {{ return(none) }}
    {%- endif -%}

    {%- set header = {} -%}
    {%- set types = {} -%}
    {%- set found = [] -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- if (column.name | upper).startswith('IBMSNAP_') -%}
            {%- do header.update({column.name | upper: column}) -%}
        {%- else -%}
            {%- do found.append(column.name) -%}
            {%- do types.update({column.name | lower: column.type}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not header and not found -%}
        {%- do afterimage._raise_no_columns(macro_name, relation) -%}
    {%- endif -%}
    {%- set needed = ['IBMSNAP_COMMITSEQ', 'IBMSNAP_INTENTSEQ', 'IBMSNAP_OPERATION'] -%}
    {%- for name in needed if name not in header -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " must have the columns " ~ needed | join(', ') ~ ". It has: "
            ~ (header.keys() | list + found)
        ) -%}
    {%- endfor -%}

    {%- do afterimage._check_known(macro_name, 'columns', columns, found) -%}
    {%- set images = afterimage._db2_before_columns(found, types, columns or [], before_prefix or '') -%}
    {%- set data = found | reject('in', images.values()) | list -%}
    {%- set data = afterimage._as_spelled(columns, found) if columns else data -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, data) -%}
    {%- set image_of = {} -%}
    {%- for name in data if name | lower in images -%}
        {%- do image_of.update({name: images[name | lower]}) -%}
    {%- endfor -%}

    {{ return({
        'columns': data,
        'unique_key': afterimage._in_order(unique_key, data),
        'types': types,
        'image_of': image_of,
        'commitseq': afterimage._db2_hex(header['IBMSNAP_COMMITSEQ']),
        'commit_bytes': afterimage._quote(header['IBMSNAP_COMMITSEQ'].name)
            if header['IBMSNAP_COMMITSEQ'].type == 'binary' else none,
        'intentseq': afterimage._db2_hex(header['IBMSNAP_INTENTSEQ']),
        'operation': 'upper(trim(cast(' ~ afterimage._quote(header['IBMSNAP_OPERATION'].name) ~ ' as string)))',
        'logmarker': afterimage._db2_time(header['IBMSNAP_LOGMARKER'])
            if 'IBMSNAP_LOGMARKER' in header else 'cast(null as timestamp)',
        'has_logmarker': 'IBMSNAP_LOGMARKER' in header,
    }) }}
{%- endmacro -%}


{#- Column name in lower case -> the column that holds its before-image: the prefix and the name, of the same type, and
    not one that the caller calls a data column. What is taken for a before-image has none itself, so shorter names go
    first. -#}
{%- macro _db2_before_columns(found, types, columns, prefix) -%}
    {%- set images = {} -%}
    {%- if not prefix -%}
        {{ return(images) }}
    {%- endif -%}
    {%- set given = columns | map('lower') | list -%}
    {%- set taken = [] -%}
    {%- for size in found | map('length') | unique | sort -%}
        {%- for name in found if name | length == size and (name | lower).startswith(prefix | lower) -%}
            {%- set plain = name[prefix | length:] | lower -%}
            {%- set matches = plain in types and types[plain] == types[name | lower] -%}
            {%- if matches and plain not in taken and name | lower not in given -%}
                {%- do images.update({plain: name}) -%}
                {%- do taken.append(name | lower) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(images) }}
{%- endmacro -%}


{#- A time, also in the form that Db2 itself writes: `2024-01-31-08.00.00.000000`, with up to 12 digits behind the
    point. -#}
{%- macro _db2_time(column) -%}
    {%- set name = afterimage._quote(column.name) -%}
    {%- if column.type != 'string' -%}
        {{ return(afterimage._landed_time(name, column.type)) }}
    {%- endif -%}
    {{ return(afterimage._landed_time(
        "regexp_replace(trim(" ~ name ~ "), '^([0-9]{4}-[0-9]{2}-[0-9]{2})-([0-9]{2})[.]([0-9]{2})[.]([0-9]{2})"
        ~ "([.][0-9]{1,12})?[.]?$', '$1 $2:$3:$4$5')", 'string'
    )) }}
{%- endmacro -%}


{#- A log sequence number as hex digits in upper case, from bytes or from text that holds them. -#}
{%- macro _db2_hex(column) -%}
    {%- set name = afterimage._quote(column.name) -%}
    {{ return(
        'hex(' ~ name ~ ')' if column.type == 'binary'
        else "upper(regexp_replace(trim(cast(" ~ name ~ " as string)), '^0[xX]', ''))"
    ) }}
{%- endmacro -%}


{#- Whether hex digits are a log sequence number: 10 bytes, or 16 since version 10. -#}
{%- macro _db2_is_place(digits) -%}
coalesce({{ digits }} rlike '^([0-9A-F]{20}|[0-9A-F]{32})$' and not {{ digits }} rlike '^0+$', false)
{%- endmacro -%}


{#- Whether a row says where it stands in the log. -#}
{%- macro _db2_has_place(layout) -%}
    {{ return(
        '(' ~ afterimage._db2_is_place(layout.commitseq) ~ ' and ' ~ afterimage._db2_is_place(layout.intentseq) ~ ')'
    ) }}
{%- endmacro -%}


{#- Version 10 of Db2 made 16 bytes of 10 by zeros in front, so that is how the two compare. -#}
{%- macro _db2_place(digits) -%}
lpad({{ digits }}, 32, '0')
{%- endmacro -%}


{#- A time of the source's clock in UTC. -#}
{%- macro _db2_utc(expression, time_zone) -%}
    {%- if time_zone == 'UTC' -%}
        {{ return(expression) }}
    {%- endif -%}
    {{ return('to_utc_timestamp(' ~ expression ~ ', ' ~ afterimage._literal(time_zone) ~ ')') }}
{%- endmacro -%}


{#- The row that a delete took away. Capture writes it to the columns and their before-images alike; whatever fills one
    of the two is enough. -#}
{%- macro _db2_deleted_image(layout) -%}
    {%- set fields = [] -%}
    {%- for column in layout.columns -%}
        {%- set name = afterimage._quote(column) -%}
        {%- do fields.append(
            afterimage._literal(column) ~ ', ' ~ (
                'coalesce(' ~ name ~ ', ' ~ afterimage._quote(layout.image_of[column]) ~ ')'
                if column in layout.image_of else name
            )
        ) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}


{#- The row before an update, as far as before-image columns tell: a key without one counts as unchanged, any other
    column as unknown. -#}
{%- macro _db2_before_image(layout) -%}
    {%- if not layout.image_of -%}
        {{ return('if(true, null, ' ~ afterimage._struct(layout.columns) ~ ')') }}
    {%- endif -%}
    {%- set fields = [] -%}
    {%- for column in layout.columns -%}
        {%- set value = afterimage._quote(layout.image_of.get(column, column)) -%}
        {%- if column not in layout.image_of and column not in layout.unique_key -%}
            {%- set value = 'cast(null as ' ~ layout.types[column | lower] ~ ')' -%}
        {%- endif -%}
        {%- do fields.append(afterimage._literal(column) ~ ', ' ~ value) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}


{#- The CTEs from the rows of a CD or CCD table up to `distinct_rows`: each row once, judged, with its place and its
    commit time. Args: layout, relation, complete, uow, time_zone, and the commit after which to read, if not all. -#}
{%- macro _db2_rows(layout, rows, condition, complete, uow=none, time_zone='UTC') -%}
    {%- set keys = layout.unique_key -%}
    {%- set image_columns = layout.image_of.values() | list -%}

source_rows as (

    select
        {{ layout.commitseq }} as commit_digits,
        {{ layout.intentseq }} as intent_digits,
        {{ layout.operation }} as operation_code,
        {{ afterimage._db2_utc(layout.logmarker, time_zone) }} as landed_at,
        {{ afterimage._struct(layout.columns) }} as landed_image,
        {{ afterimage._db2_deleted_image(layout) }} as deleted_image,
        {{ afterimage._db2_before_image(layout) }} as landed_before,
        {% if image_columns -%}
        {% for column in image_columns -%}
        {{ afterimage._quote(column) }} is not null{{ ' or ' if not loop.last }}
        {%- endfor %}
        {%- else -%}
        false
        {%- endif %} as has_before_values,
        {{ afterimage._hash_of_values(afterimage._quoted(layout.columns + image_columns)) | indent(8) }} as image_hash

    from {{ rows }}
    {%- if condition %}
    where {{ condition | indent(8) }}
    {%- endif %}

),

placed_rows as (

    select
        *,
        {{ afterimage._db2_is_place('commit_digits') }}
        and {{ afterimage._db2_is_place('intent_digits') }} as has_place,
        -- What a full load has instead of a place in the log: nothing, or zeros.
        coalesce(commit_digits rlike '^0*$', true) or coalesce(intent_digits rlike '^0*$', true) as has_no_place,
        -- The text index's manual calls this column an INTEGER, though it holds letters. A table that has it so can
        -- only hold the digits that the same manual gives the log table.
        case operation_code
            when 'I' then 'insert'
            when '0' then 'insert'
            when 'U' then 'update'
            when '1' then 'update'
            when 'D' then 'delete'
            when '2' then 'delete'
        end as told

    from source_rows

),

read_rows as (

    select
        *,
        if(has_place, {{ afterimage._db2_place('commit_digits') }}, null) as commit_place,
        if(has_place, {{ afterimage._db2_place('intent_digits') }}, null) as intent_place,
        {% if complete -%}
        if(told = 'insert' and has_no_place, 'load', coalesce(told, 'unknown'))
        {%- else -%}
        coalesce(told, 'unknown')
        {%- endif %} as kind,
        if(told = 'delete', deleted_image, landed_image) as image

    from placed_rows

),

judged as (

    select
        *,
        case
            when kind = 'unknown'
                then concat('unknown operation: IBMSNAP_OPERATION ', coalesce(concat('"', operation_code, '"'), 'NULL'))
            when kind <> 'load' and not has_place
                then concat(
                    'no place in the log, which is 10 or 16 bytes: IBMSNAP_COMMITSEQ ', coalesce(commit_digits, 'NULL'),
                    ', IBMSNAP_INTENTSEQ ', coalesce(intent_digits, 'NULL')
                )
            when not {{ afterimage._db2_has_key(layout, 'image') }}
                then 'NULL in the key ({{ keys | join(", ") | replace("'", "\\'") }})'
        end as reject_reason,
        md5({{ afterimage._exact_json(afterimage._struct(keys, 'image.')) }}) as key_hash

    from read_rows

),

-- What is the same row when it is delivered again, were it in the longer form of its place.
identified as (

    select
        *,
        case
            when reject_reason is not null
                then concat('rejected-', md5({{ afterimage._exact_json('struct(
                    coalesce(commit_place, commit_digits) as c,
                    coalesce(intent_place, intent_digits) as i,
                    operation_code, image, image_hash
                )') }}))
            when kind = 'load' then concat('load-', key_hash)
            else concat(commit_place, intent_place)
        end as row_group

    from judged

),

{%- if uow is not none %}
{%- set found = {} -%}
{%- for column in afterimage._relation_columns(uow) -%}
    {%- do found.update({column.name | upper: column}) -%}
{%- endfor %}

commits as (

    select
        commit_place,
        max(committed_at) as committed_at

    from (
        select
            {{ afterimage._db2_place(afterimage._db2_hex(found['IBMSNAP_COMMITSEQ'])) }} as commit_place,
            {{ afterimage._db2_utc(afterimage._db2_time(found['IBMSNAP_LOGMARKER']), time_zone) }} as committed_at

        from {{ uow }}
        where {{ afterimage._db2_is_place(afterimage._db2_hex(found['IBMSNAP_COMMITSEQ'])) }}
    ) as units_of_work
    group by commit_place

),
{%- endif %}

timed as (

    select
        identified.*,
        {{ 'coalesce(identified.landed_at, commits.committed_at)' if uow is not none else 'identified.landed_at' }}
            as committed_at

    from identified
    {%- if uow is not none %}
    left outer join commits
        on identified.commit_place = commits.commit_place
    {%- endif %}

),

-- A row delivered twice counts once; of its copies the one with the first time stands.
copies as (

    select
        *,
        row_number() over (
            partition by row_group, kind, image_hash
            order by committed_at asc nulls last, operation_code asc, commit_digits asc, intent_digits asc
        ) as copy_number,
        count(*) over (partition by row_group, kind, image_hash) as copies,
        max(committed_at) over (partition by row_group, kind, image_hash) as last_time

    from timed

),

distinct_rows as (

    select
        row_group,
        kind,
        reject_reason,
        key_hash,
        image_hash,
        commit_place,
        intent_place,
        image,
        landed_before,
        has_before_values,
        committed_at as changed_at,
        last_time,
        copies,
        -- An update that is told by two rows takes the old row away first, should both have one place.
        array_position(array('load', 'delete', 'insert', 'update', 'unknown'), kind) as row_rank

    from copies
    where copy_number = 1

)
{%- endmacro -%}


{#- The rows of a CD or CCD table, for the intake: those of one commit are read together, rows without a place with
    those of the same key. A commit whose time has come to the UOW table is read again. -#}
{%- macro _db2_sides(layout, relation, uow, condensed) -%}
    {%- set has_place = afterimage._db2_has_place(layout) -%}
    {%- set sides = [{
        'relation': relation,
        'group': 'if(' ~ has_place ~ ', ' ~ afterimage._db2_place(layout.commitseq) ~ ', cast('
            ~ afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) ~ ' as string))',
        'place': afterimage._db2_place(layout.commitseq),
        'has_place': has_place,
        'reach': 24,
        'bounds': afterimage._db2_bounds(layout),
        'time': layout.logmarker if layout.has_logmarker else none,
        'keeps': 32 if not condensed else none,
    }] -%}
    {%- if uow is not none -%}
        {%- set found = {} -%}
        {%- for column in afterimage._relation_columns(uow) -%}
            {%- do found.update({column.name | upper: column}) -%}
        {%- endfor -%}
        {%- set commitseq = afterimage._db2_hex(found['IBMSNAP_COMMITSEQ']) -%}
        {%- do sides.append({
            'relation': uow,
            'group': afterimage._db2_place(commitseq),
            'where': afterimage._db2_is_place(commitseq),
            'place': afterimage._db2_place(commitseq),
            'has_place': 'true',
            'reach': 24,
        }) -%}
    {%- endif -%}
    {{ return(sides) }}
{%- endmacro -%}


{#- The condition that a commit is within bounds. Bytes are held against bytes, in both of their lengths, so that Spark
    leaves out files. -#}
{%- macro _db2_bounds(layout) -%}
    {%- if layout.commit_bytes is none -%}
        {{ return(afterimage._db2_place(layout.commitseq) ~ " between '<first>' and '<last>'") }}
    {%- endif -%}
    {{ return(
        '(' ~ layout.commit_bytes ~ " between X'<first>' and X'<last>' or " ~ layout.commit_bytes
        ~ " between unhex(substr('<first>', 13)) and unhex(substr('<last>', 13)))"
    ) }}
{%- endmacro -%}


{#- Whether an image has its key. -#}
{%- macro _db2_has_key(layout, image) -%}
    {%- set conditions = [] -%}
    {%- for key in layout.unique_key -%}
        {%- do conditions.append(image ~ '.' ~ afterimage._quote(key) ~ ' is not null') -%}
    {%- endfor -%}
    {{ return('(' ~ conditions | join(' and ') ~ ')') }}
{%- endmacro -%}


{#- IBMSNAP_UOW must be a table that has the commit and its time. -#}
{%- macro _db2_check_uow(macro_name, uow) -%}
    {%- if uow is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = afterimage._relation_columns(uow) | map(attribute='name') | map('upper') | list -%}
    {%- for name in ['IBMSNAP_COMMITSEQ', 'IBMSNAP_LOGMARKER'] if name not in found -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `uow` must be a relation with the columns IBMSNAP_COMMITSEQ and IBMSNAP_LOGMARKER. "
            ~ uow ~ " has: " ~ found
        ) -%}
    {%- endfor -%}
{%- endmacro -%}
