{#- What the table remembers, or an error that says what to do. It may be a landed table of the model's name. -#}
{%- macro _checked_bookkeeping(target_relation, stream, options, snapshot) -%}
    {%- set properties = afterimage._table_properties(target_relation) -%}
    {%- set taken_in = afterimage._from_property(properties.get('afterimage.taken_in')) -%}
    {%- set built_with = afterimage._from_property(properties.get('afterimage.options')) -%}
    {%- if taken_in is none or built_with is none -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ": " ~ target_relation ~ " was not built by this materialization. If it is another"
            ~ " table, such as a landed one, give the model another `alias`. Only if the model has built it as something"
            ~ " else before, drop it."
        ) -%}
    {%- endif -%}
    {%- set now = afterimage._options_text(options) -%}
    {%- if model.config.materialized == 'audit' -%}
        {#- It is a var for histories: no row of an audit depends on it. -#}
        {%- set unused = '; load_valid_from=[^;]*' -%}
        {%- set built_with = modules.re.sub(unused, '', built_with) -%}
        {%- set now = modules.re.sub(unused, '', now) -%}
    {%- endif -%}
    {%- if built_with != now -%}
        {#- A misspelt name is no reason for a full refresh. -#}
        {%- set names = afterimage._stream_columns(options.macro_name, stream) | map(attribute='name') | list -%}
        {%- for argument in ['unique_key', 'track_columns', 'ignore_columns', 'overwrite_columns'] -%}
            {%- do afterimage._check_known(options.macro_name, argument, options[argument], names) -%}
        {%- endfor -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ": the options have changed since " ~ target_relation ~ " was built. Restore them, or"
            ~ " run `dbt run --full-refresh --select " ~ model.name ~ "`. Built with: " ~ built_with ~ ". Got: " ~ now
        ) -%}
    {%- endif -%}
    {%- if afterimage._is_rolled_back(target_relation, properties.get('afterimage.snapshot'), snapshot) -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ": " ~ target_relation ~ " was rolled back, so changes that it took in are missing."
            ~ " Run `dbt run --full-refresh --select " ~ model.name ~ "`."
        ) -%}
    {%- endif -%}
    {{ return(fromjson(taken_in)) }}
{%- endmacro -%}


{#- Raises an error if the table has a column that the stream no longer has, or has with a type that is not wider.
    Returns what must be altered: the names of the columns that are `added`, and the `widenings` (see _widenings). -#}
{%- macro _check_columns_kept(target_relation, columns, options) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set meta = afterimage._meta_columns(options.macro_name, options.meta_column_names, names) -%}
    {%- set ours = meta.values() | map('lower') | list -%}
    {%- set known = {} -%}
    {%- for column in afterimage._relation_columns(target_relation) -%}
        {%- if afterimage._quote(column.name) | lower not in ours -%}
            {%- do known.update({column.name | lower: column.type}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set widenings = [] -%}
    {%- for column in columns if column.name | lower in known -%}
        {%- do widenings.extend(
            afterimage._check_type_kept(target_relation, column, known[column.name | lower], options)
        ) -%}
    {%- endfor -%}
    {%- do afterimage._refuse_lost_columns(target_relation, known, columns, options) -%}
    {{ return({'added': names | map('lower') | reject('in', known) | list, 'widenings': widenings}) }}
{%- endmacro -%}


{#- Raises an error if the stream no longer has one of the columns `known` that the table was built of. -#}
{%- macro _refuse_lost_columns(target_relation, known, columns, options) -%}
    {%- for name in known if name | lower not in columns | map(attribute='name') | map('lower') -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ": the stream no longer has the column `" ~ name ~ "` of " ~ target_relation
            ~ ". Select it again, or run `dbt run --full-refresh --select " ~ model.name ~ "`."
        ) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- Raises an error if a column of the stream has another type than in the table that was built from it, and not one
    that the table can follow to. Returns how it follows. The values of a key must keep their texts, because history_id
    is made of these. -#}
{%- macro _check_type_kept(target_relation, column, built_type, options) -%}
    {%- set widenings = afterimage._widenings(built_type, column.type, [column.name]) -%}
    {%- set is_key = column.name | lower in options.unique_key | map('lower') -%}
    {%- if widenings is none or (is_key and afterimage._rewords(widenings)) -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ": the column `" ~ column.name ~ "` is " ~ built_type ~ " in " ~ target_relation
            ~ " but " ~ column.type ~ " in the stream. Run `dbt run --full-refresh --select " ~ model.name ~ "`."
        ) -%}
    {%- endif -%}
    {{ return(widenings) }}
{%- endmacro -%}


{#- Widens columns as the stream has them, and adds its new ones, each at its place; earlier versions hold NULL
    there. -#}
{%- macro _alter_columns(target_relation, columns, altered) -%}
    {%- do afterimage._widen_columns(target_relation, altered.widenings) -%}
    {%- set position = namespace(after='first') -%}
    {%- for column in columns -%}
        {%- set name = afterimage._quote(column.name) -%}
        {%- if column.name | lower in altered.added -%}
            {%- do afterimage._of_model_format('before_add')(target_relation, column.name, column.type) -%}
            {%- do run_query(
                'alter table ' ~ target_relation ~ ' add columns (' ~ name ~ ' ' ~ column.spelled ~ ' ' ~ position.after ~ ')'
            ) -%}
        {%- endif -%}
        {%- set position.after = 'after ' ~ name -%}
    {%- endfor -%}
{%- endmacro -%}


{#- What the table remembers of its runs in its properties: the changes that it has taken in, the options that it
    was built with, and the snapshot for which that holds. Properties are set after the versions are written. If a
    run is killed in between, the next one repeats it with the same result. -#}
{%- macro _bookkeeping(options, remembered) -%}
    {{ return({
        'afterimage.snapshot': '',
        'afterimage.taken_in': afterimage._as_property(tojson(remembered)),
        'afterimage.options': afterimage._as_property(afterimage._options_text(options)),
    }) }}
{%- endmacro -%}


{#- What an audit remembers beside what a history does, since its own columns do not say it: which columns it was
    built of, and the types of those with values whose text depends on the width, by name. -#}
{%- macro _with_columns(remembered, columns) -%}
    {{ return(dict(
        remembered, columns=columns | map(attribute='name') | list, types=afterimage._types_by_width(columns)
    )) }}
{%- endmacro -%}


{%- macro _types_by_width(columns) -%}
    {%- set types = {} -%}
    {%- for column in columns if 'float' in column.type or 'double' in column.type -%}
        {%- do types.update({column.name: column.type}) -%}
    {%- endfor -%}
    {{ return(types) }}
{%- endmacro -%}


{#- Whether values of earlier changes have another text now, because a float has become a double. A table of an earlier
    release does not say which types it was built with. -#}
{%- macro _is_reworded(taken_in, columns) -%}
    {%- for name, type in afterimage._types_by_width(columns).items() if 'double' in type -%}
        {%- if type != taken_in.get('types', {name: 'float'}).get(name, type) -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro -%}


{#- The options as one text to compare. The order of names matters only for the key, because history_id is made of
    it. -#}
{%- macro _options_text(options) -%}
    {%- set parts = [] -%}
    {%- for name in [
        'unique_key', 'track_columns', 'ignore_columns', 'overwrite_columns', 'grain', 'deletes', 'load_valid_from'
    ] + (['valid_to_current'] if options.valid_to_current else []) -%}
        {%- set value = options[name] -%}
        {%- set is_list = value is sequence and value is not string -%}
        {%- if is_list -%}
            {%- set names = value | map('lower') | list -%}
            {%- set value = (names if name == 'unique_key' else names | sort) | join(',') -%}
            {#- No column is something else than all columns. -#}
            {%- set value = value or ('[]' if name == 'track_columns' else '') -%}
        {%- endif -%}
        {%- do parts.append(name ~ '=' ~ (value or '')) -%}
    {%- endfor -%}
    {#- From the config, because those of an audit are no options of a history. -#}
    {%- for ours, name in (afterimage._option('meta_column_names') or {}) | dictsort -%}
        {%- do parts.append(ours ~ ' as ' ~ name) -%}
    {%- endfor -%}
    {{ return(parts | join('; ')) }}
{%- endmacro -%}


{#- After the rows are written: stores what the table has taken in, and the snapshot for which that holds. -#}
{%- macro _remember_taken_in(target_relation, remembered) -%}
    {%- do afterimage._set_properties(target_relation, {
        'afterimage.snapshot': afterimage._noted_version(target_relation),
        'afterimage.taken_in': afterimage._as_property(tojson(remembered)),
    }) -%}
{%- endmacro -%}


{#- Raises an error if another run has written to the table since `version`, other than this run's own commit. The next
    run then takes in what this one took in. -#}
{%- macro _refuse_if_overtaken(target_relation, version, taken_in) -%}
    {%- do afterimage._of_model_format('refuse_if_overtaken')(
        target_relation, version, {'afterimage.taken_in': afterimage._as_property(tojson(taken_in))}
    ) -%}
{%- endmacro -%}
