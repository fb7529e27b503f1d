{#- What a caller gives: an option of a model, and checks. Every message names the macro, the argument, what is allowed
    and what was given. Then a check of files that a relation names by their path. -#}


{#- An option of ours in a model's config, or in its `meta`: on Databricks dbt 1.11 warns of each config that it does
    not know, and wants it there. -#}
{%- macro _option(name, default=none, given=none) -%}
    {%- set given = given or model.config -%}
    {{ return(given.get(name, (given.meta or {}).get(name, default))) }}
{%- endmacro -%}


{%- macro _check_choice(macro_name, argument, value, allowed) -%}
    {%- if value not in allowed -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be one of " ~ allowed ~ ". Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _check_text(macro_name, argument, value) -%}
    {%- if value is not string or not value -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be a text that is not empty. Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _check_number(macro_name, argument, value, required=false) -%}
    {%- if value is none and not required -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if value is not integer or value is boolean or value < 0 -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be a whole number, 0 or more. Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _check_names(macro_name, argument, value, required=false) -%}
    {%- if value is none and not required -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set is_list = value is sequence and value is not string and value is not mapping -%}
    {%- if not is_list or (required and not value) or value | reject('string') | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be a list of column names"
            ~ (", with at least one" if required else "") ~ ". Got: " ~ value
        ) -%}
    {%- endif -%}
    {%- if (value | map('lower') | unique | list | length) != (value | length) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` names a column twice (case does not matter). Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _check_known(macro_name, argument, value, columns) -%}
    {%- for name in value or [] -%}
        {%- if name | lower not in columns | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": `" ~ argument ~ "` names a column that does not exist. Allowed: "
                ~ columns ~ ". Got: " ~ name
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


{#- Checks that a relation given as an argument has these columns. -#}
{%- macro _check_columns(macro_name, argument, relation, needed) -%}
    {%- set found = afterimage._relation_columns(relation) | map(attribute='name') | list -%}
    {%- if needed | map('lower') | reject('in', found | map('lower') | list) | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be a relation with the columns " ~ needed | join(', ')
            ~ ". Got: " ~ relation ~ " with the columns " ~ found
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Names as the columns that they refer to are spelled. -#}
{%- macro _match_column_case(names, columns) -%}
    {%- set spelled = [] -%}
    {%- for name in names -%}
        {%- do spelled.append(columns[(columns | map('lower') | list).index(name | lower)]) -%}
    {%- endfor -%}
    {{ return(spelled) }}
{%- endmacro -%}


{#- The same names in the order of the columns, so that a change_id made of them does not depend on the argument's
    order. -#}
{%- macro _in_column_order(names, columns) -%}
    {{ return(columns | select('in', afterimage._match_column_case(names, columns)) | list) }}
{%- endmacro -%}


{#- A relation with the rows that `--empty` and `--sample` leave out. -#}
{%- macro _whole(relation) -%}
    {%- set is_as_given = relation is none or relation is string -%}
    {{ return(relation if is_as_given else relation.replace(limit=none, event_time_filter=none)) }}
{%- endmacro -%}


{#- Checks a list of {name, type} and returns it with the types as Spark knows them, and with the `precision` that a
    time may have. `further` are types that the macro takes besides those that any column may have, `encodings` what a
    column may name as its `encoding`. -#}
{%- macro _typed_columns(macro_name, columns, further=[], encodings=none) -%}
    {%- set types = [
        'string', 'boolean', 'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'date', 'timestamp',
        'timestamp_ntz', 'binary', 'decimal(p,s)'
    ] + further -%}
    {%- set allowed = types | join('|') | replace('(p,s)', '[(] *[0-9]+ *, *[0-9]+ *[)]')
        | replace('(p)', '[(][0-9][)]') -%}
    {%- if columns is string or columns is mapping or columns is not sequence or not columns -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` must be a list of {name, type}, with at least one. Got: " ~ columns
        ) -%}
    {%- endif -%}
    {%- set typed = [] -%}
    {%- for column in columns -%}
        {%- if column is not mapping or column.name is not string or not column.name or column.type is not string
            or not modules.re.fullmatch(allowed, column.type | lower | trim) -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": each of `columns` must be a {name, type} with one of the types " ~ types | join(', ')
                ~ ". Got: " ~ column
            ) -%}
        {%- endif -%}
        {%- if encodings and column.encoding is defined -%}
            {%- do afterimage._check_choice(macro_name, 'encoding', column.encoding, encodings) -%}
        {%- endif -%}
        {%- set type = column.type | lower | replace(' ', '') -%}
        {%- set precision = type[-2] | int if type.startswith('timestamp') and type.endswith(')') else none -%}
        {%- do typed.append(dict(
            column, type=type.split('(')[0] if precision is not none else type, precision=precision
        )) -%}
    {%- endfor -%}
    {%- do afterimage._check_names(macro_name, 'columns', typed | map(attribute='name') | list) -%}
    {{ return(typed) }}
{%- endmacro -%}


{#- Raises an error if JSON files that Spark reads by their path have a line that is no JSON. Spark would make a data
    column of such lines, which staging, history and audit would get, and lack in the next run. Raises one, too, if the
    files have a column that hides which of them have landed. -#}
{%- macro _check_files_by_path(stored, columns) -%}
    {%- if afterimage._are_json_files(stored) and '_corrupt_record' in columns | map(attribute='name') -%}
        {%- do exceptions.raise_compiler_error(
            stored ~ ": a line in these files is no JSON object, or its file is still being written. Repair or complete"
            ~ " that file, or move it away. Run again then: nothing was taken in. Such lines have a `_corrupt_record` in"
            ~ " `select * from " ~ stored ~ "`."
        ) -%}
    {%- endif -%}
    {%- if afterimage._is_read_by_path(stored) and afterimage._hides_files(columns) -%}
        {%- do exceptions.raise_compiler_error(
            stored ~ ": the column `_metadata` of these files hides that of Spark, which says when each was written. No"
            ~ " run could tell which have landed. Land them with `afterimage land --copy`, or rename the column."
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Whether a data column hides Spark's own, which says from which file a row comes, and when that was written. -#}
{%- macro _hides_files(columns) -%}
    {{ return('_metadata' in columns | map(attribute='name') | map('lower')) }}
{%- endmacro -%}


{#- Raises an error if masks would count columns in an order that nobody gave: Spark sorts the columns of JSON files by
    name. `counted_by` is what counts them, `names_all` whether the argument `columns` gives all of them. -#}
{%- macro _check_order(macro_name, argument, relation, counted_by, names_all=false) -%}
    {%- if not names_all and afterimage._are_json_files(relation) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": Spark sorts the columns of JSON files by name, and " ~ counted_by
            ~ " counts them in the source's order. Land the files with `afterimage land --copy`"
            ~ (', or set `columns` to all data columns in that order' if argument == 'relation')
            ~ ". Got: `" ~ argument ~ "` " ~ relation
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Whether a relation is JSON files that Spark reads by their path. -#}
{%- macro _are_json_files(relation) -%}
    {%- set stored = afterimage._stored_relation(relation) -%}
    {{ return(stored.schema | lower == 'json' and afterimage._is_read_by_path(stored)) }}
{%- endmacro -%}
