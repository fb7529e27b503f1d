{#- Checks the arguments of db2_change_data and index_sync, and says what the table is like; none while its columns
    cannot be read:
    - `columns`, `unique_key`, `types`: the data columns, those of the key, and types by name in lower case,
    - `image_of`: column -> its before-image column,
    - `commitseq`, `intentseq`, `operation`, `logmarker`: SQL for these header columns; `has_logmarker`: whether it is there,
    - `commit_bytes`: the bare COMMITSEQ if it landed as bytes, so that a bound on it can skip files. -#}
{%- macro _db2_layout(macro_name, relation, unique_key, columns, before_prefix) -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- if before_prefix is not none and (before_prefix is not string or before_prefix | length > 4) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `before_prefix` must be the prefix that the table was registered with, a text of up to 4"
            ~ " characters, or none if the table has no before-images. Got: " ~ before_prefix
        ) -%}
    {%- endif -%}
    {%- if afterimage._needs_placeholder([relation]) -%}
        {{ return(none) }}
    {%- endif -%}

    {%- set header = {} -%}
    {%- set types = {} -%}
    {%- set found = [] -%}
    {%- for column in afterimage._existing_columns(macro_name, relation) -%}
        {%- if (column.name | upper).startswith('IBMSNAP_') -%}
            {%- do header.update({column.name | upper: column}) -%}
        {%- else -%}
            {%- do found.append(column.name) -%}
            {%- do types.update({column.name | lower: column.type}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set needed = ['IBMSNAP_COMMITSEQ', 'IBMSNAP_INTENTSEQ', 'IBMSNAP_OPERATION'] -%}
    {%- for name in needed if name not in header -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " must have the columns " ~ needed | join(', ') ~ ". Give the CD or CCD"
            ~ " table, not the source table. The docs say what reads a table without log sequence"
            ~ " numbers: db2_change_data, Other tools of IBM. Got: " ~ (header.keys() | list + found)
        ) -%}
    {%- endfor -%}
    {%- for name in needed[:2] if modules.re.match('(tiny|small|big)?int|decimal|float|double', header[name].type) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ name ~ " must be bytes or hex digits. If it holds numbers, give a model over "
            ~ relation ~ " that writes them as texts: lpad(cast(" ~ name ~ " as string), 32, '0'). Got: "
            ~ header[name].type
        ) -%}
    {%- endfor -%}

    {%- do afterimage._check_known(macro_name, 'columns', columns, found) -%}
    {%- set images = afterimage._before_columns(found, types, columns or [], before_prefix or '') -%}
    {%- set data = found | reject('in', images.values()) | list -%}
    {%- set data = afterimage._match_column_case(columns, found) if columns else data -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, data) -%}
    {%- set image_of = {} -%}
    {%- for name in data if name | lower in images -%}
        {%- do image_of.update({name: images[name | lower]}) -%}
    {%- endfor -%}

    {{ return({
        'columns': data,
        'unique_key': afterimage._in_column_order(unique_key, data),
        'types': types,
        'image_of': image_of,
        'commitseq': afterimage._hex_digits(header['IBMSNAP_COMMITSEQ']),
        'commit_bytes': afterimage._quote(header['IBMSNAP_COMMITSEQ'].name)
            if header['IBMSNAP_COMMITSEQ'].type == 'binary' else none,
        'intentseq': afterimage._hex_digits(header['IBMSNAP_INTENTSEQ']),
        'operation': 'upper(trim(cast(' ~ afterimage._quote(header['IBMSNAP_OPERATION'].name) ~ ' as string)))',
        'logmarker': afterimage._db2_time(header['IBMSNAP_LOGMARKER'])
            if 'IBMSNAP_LOGMARKER' in header else 'cast(null as timestamp)',
        'has_logmarker': 'IBMSNAP_LOGMARKER' in header,
    }) }}
{%- endmacro -%}


{#- The UOW table, with the SQL of its columns. -#}
{%- macro _db2_uow(relation) -%}
    {%- do afterimage._check_columns('db2_change_data', 'uow', relation, ['IBMSNAP_COMMITSEQ', 'IBMSNAP_LOGMARKER']) -%}
    {%- set found = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do found.update({column.name | upper: column}) -%}
    {%- endfor -%}
    {{ return({
        'relation': relation,
        'commitseq': afterimage._hex_digits(found['IBMSNAP_COMMITSEQ']),
        'logmarker': afterimage._db2_time(found['IBMSNAP_LOGMARKER']),
    }) }}
{%- endmacro -%}


{#- A time, also in Db2's own form: `2024-01-31-08.00.00.000000`, with up to 12 digits after the point. -#}
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


{#- The rows of a CD or CCD table, for the intake. Rows of one commit are read together, rows without a place with
    those of the same key. A commit is read again when its time arrives in the UOW table. -#}
{%- macro _db2_sides(layout, relation, uow, condensed, time_zone) -%}
    {%- set has_place = afterimage._db2_has_place(layout) -%}
    {%- set sides = [{
        'relation': relation,
        'group': 'if(' ~ has_place ~ ', ' ~ afterimage._db2_place(layout.commitseq) ~ ', cast('
            ~ afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) ~ ' as string))',
        'place': afterimage._db2_place(layout.commitseq),
        'has_place': has_place,
        'reach': 24,
        'bounds': afterimage._db2_bounds(layout),
        'time': afterimage._in_utc(layout.logmarker, time_zone) if layout.has_logmarker else none,
        'keeps': 32 if not condensed else none,
    }] -%}
    {%- if uow is not none -%}
        {%- do sides.append({
            'relation': uow.relation,
            'group': afterimage._db2_place(uow.commitseq),
            'where': afterimage._db2_is_place(uow.commitseq),
            'place': afterimage._db2_place(uow.commitseq),
            'has_place': 'true',
            'reach': 24,
        }) -%}
    {%- endif -%}
    {{ return(sides) }}
{%- endmacro -%}


{#- The condition that a commit is within bounds. A landed commit has 10 or 16 bytes. The bare column is compared
    with bounds of each length, so that Spark can skip files. -#}
{%- macro _db2_bounds(layout) -%}
    {%- if layout.commit_bytes is none -%}
        {{ return(afterimage._db2_place(layout.commitseq) ~ " between '<first>' and '<last>'") }}
    {%- endif -%}
    {{ return(
        '(' ~ layout.commit_bytes ~ " between X'<first>' and X'<last>' or " ~ layout.commit_bytes
        ~ " between unhex(substr('<first>', 13)) and unhex(substr('<last>', 13)))"
    ) }}
{%- endmacro -%}


{#- Whether a row gives its place in the log. -#}
{%- macro _db2_has_place(layout) -%}
    {{ return(
        '(' ~ afterimage._db2_is_place(layout.commitseq) ~ ' and ' ~ afterimage._db2_is_place(layout.intentseq) ~ ')'
    ) }}
{%- endmacro -%}


{#- Whether hex digits are a log sequence number: 10 bytes, or 16 since version 10. -#}
{%- macro _db2_is_place(digits) -%}
coalesce({{ digits }} rlike '^([0-9A-F]{20}|[0-9A-F]{32})$' and not {{ digits }} rlike '^0+$', false)
{%- endmacro -%}


{#- Db2 version 10 extended 10 bytes to 16 with leading zeros, so the two compare that way. -#}
{%- macro _db2_place(digits) -%}
lpad({{ digits }}, 32, '0')
{%- endmacro -%}
