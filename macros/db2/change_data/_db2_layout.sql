{#- Checks the arguments that describe the layout of a CD or CCD table and works out the rest: the data columns, the
    before-image column of each, and an expression for each IBMSNAP column. -#}
{%- macro _db2_layout(macro_name, relation, unique_key, columns, before_prefix) -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- if before_prefix is not none and (before_prefix is not string or before_prefix | length > 4) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `before_prefix` must be the prefix that the table was registered with, a text of up to 4"
            ~ " characters, or none if the table has no before-images. Got: " ~ before_prefix
        ) -%}
    {%- endif -%}
    {%- if afterimage._cannot_read_columns([relation]) -%}
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
            ~ " table, not the source table. Got: " ~ (header.keys() | list + found)
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
