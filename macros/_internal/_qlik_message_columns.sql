{#- The data columns: a list of {name, type, lob} in ordinal order. What the caller leaves out comes from the newest
    metadata message of the table, which is read while compiling, since a struct's types are fixed. -#}
{%- macro _qlik_message_columns(columns, metadata, schema_rows, table) -%}
    {%- set macro_name = 'qlik_messages' -%}
    {%- set allowed = [
        'string', 'varchar', 'char', 'boolean', 'tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint',
        'long', 'float', 'real', 'double', 'decimal', 'dec', 'numeric', 'date', 'timestamp', 'timestamp_ltz',
        'timestamp_ntz', 'binary'
    ] -%}
    {%- if columns is none and metadata is none -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` must be a list of {name, type} in ordinal order, or `metadata` must be given, from"
            ~ " which they are then taken. Got: none of both"
        ) -%}
    {%- endif -%}
    {%- set given = [] -%}
    {%- set is_list = columns is none or (columns is sequence and columns is not string and columns is not mapping) -%}
    {%- for column in (columns or []) if is_list -%}
        {%- do given.append({'name': column} if column is string else column) -%}
    {%- endfor -%}
    {%- if not is_list or (columns is not none and not columns)
        or given | reject('mapping') | list or given | rejectattr('name', 'string') | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` must be a list of {name, type} in ordinal order, with at least one. Got: " ~ columns
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_names(macro_name, 'columns', given | map(attribute='name') | list) -%}
    {%- for column in given -%}
        {%- set type = column.type if column.type is defined else none -%}
        {%- if type is not none and (type is not string or type.split('(')[0] | trim | lower not in allowed) -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": `columns` gives " ~ column.name ~ " a type that must be one of " ~ allowed ~ ". Got: "
                ~ type
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if afterimage._is_ahead_of([metadata]) -%}
        {{ return([]) }}
    {%- endif -%}

    {%- set untyped = [] -%}
    {%- for column in given if column.type is not defined or column.type is none -%}
        {%- do untyped.append(column.name) -%}
    {%- endfor -%}
    {%- set known = {} -%}
    {%- if columns is none or untyped -%}
        {%- set known = afterimage._qlik_known_columns(metadata, schema_rows, table, untyped) -%}
    {%- endif -%}
    {%- set typed = [] -%}
    {%- for column in (known.values() | list if columns is none else given) -%}
        {%- set found = known.get(column.name | lower, {}) -%}
        {%- do typed.append({
            'name': found.get('name', column.name),
            'type': (column.type if column.type is defined and column.type else found.get('type')) | lower,
            'lob': column.lob if column.lob is defined else found.get('lob', false),
        }) -%}
    {%- endfor -%}
    {{ return(typed) }}
{%- endmacro -%}


{#- The columns of a table's newest schema by lower-case name, and of older ones those in `wanted`. -#}
{%- macro _qlik_known_columns(metadata, schema_rows, table, wanted) -%}
    {%- set macro_name = 'qlik_messages' -%}
    {%- set wish = 'the type of ' ~ (wanted | join(', ')) if wanted else 'the columns' -%}
    {%- if metadata is none -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` leaves out " ~ wish ~ ", so `metadata` must be given, from which it is then taken."
            ~ " Got: none"
        ) -%}
    {%- endif -%}
    {%- if metadata is not string and metadata.identifier.startswith('__dbt__cte__') -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ wish ~ " cannot be known while a unit test compiles: say it in `columns`."
        ) -%}
    {%- endif -%}
    {%- set query -%}
        select distinct
            schema_name, table_name, table_version, published_at, schema_id, column_name, spark_type, is_lob, ordinal
        from ({{ schema_rows }}) as schema_rows
        where
            reject_reason is null
            {%- if table is not none %}
            and {{ afterimage._qlik_is_table(table, 'schema_name', 'table_name') }}
            {%- endif %}
        order by
            table_version desc nulls last, published_at desc nulls last, schema_id desc, ordinal asc, column_name asc
    {%- endset -%}
    {%- set found = namespace(newest=none, tables=[]) -%}
    {%- set known = {} -%}
    {%- for row in run_query(query).rows -%}
        {%- set found.newest = found.newest or row['schema_id'] -%}
        {%- set name = (row['schema_name'] ~ '.' ~ row['table_name']) | lower -%}
        {%- if name not in found.tables -%}
            {%- do found.tables.append(name) -%}
        {%- endif -%}
        {%- set column = row['column_name'] -%}
        {%- if column | lower not in known
            and (row['schema_id'] == found.newest or column | lower in wanted | map('lower')) -%}
            {%- do known.update({
                column | lower: {'name': column, 'type': row['spark_type'], 'lob': row['is_lob']}
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if found.tables | length > 1 -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ metadata ~ " describes several tables, so `table` must say whose columns these are: one of "
            ~ found.tables ~ ". Got: " ~ table
        ) -%}
    {%- endif -%}
    {%- for name in wanted if name | lower not in known -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the type of the column " ~ name ~ " is not known: no metadata message in " ~ metadata
            ~ (" of the table " ~ table if table else "") ~ " has it. Say it in `columns`."
        ) -%}
    {%- endfor -%}
    {%- if not known -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": no metadata message in " ~ metadata ~ (" of the table " ~ table if table else "")
            ~ " is there yet, so the columns are not known. Say them in `columns`."
        ) -%}
    {%- endif -%}
    {{ return(known) }}
{%- endmacro -%}


{#- A value of a message, which is a text, as the column's type; NULL where it is none. -#}
{%- macro _qlik_cast(text, type) -%}
    {%- if type in ['string'] -%}
        {{ return(text) }}
    {%- elif type == 'binary' -%}
        {{ return('unhex(' ~ text ~ ')') }}
    {%- endif -%}
    {%- if type in ['tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint', 'long'] -%}
        {#- A whole number may be spelt `5.0`, which not every cast takes. -#}
        {%- set text = 'substring_index(' ~ text ~ ", '.', 1)" -%}
    {%- endif -%}
    {{ return('try_cast(' ~ text ~ ' as ' ~ type ~ ')') }}
{%- endmacro -%}


{#- Whether a text that is not NULL is no value of the type, or would lose something; none if every text is one. -#}
{%- macro _qlik_misfit(text, type) -%}
    {%- set base = type.split('(')[0] | trim -%}
    {%- set cast_text = afterimage._qlik_cast(text, type) -%}
    {%- if base in ['string', 'varchar', 'char'] -%}
        {{ return(none) }}
    {%- elif base in ['decimal', 'dec', 'numeric'] -%}
        {{ return(afterimage._decimal_misfit(text, type)) }}
    {%- elif base in ['tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint', 'long'] -%}
        {{ return('(' ~ cast_text ~ " is null or not " ~ text ~ " rlike '^\\\\s*[-+]?[0-9]+([.]0*)?\\\\s*$')") }}
    {%- elif base == 'date' -%}
        {{ return('coalesce(cast(' ~ cast_text ~ ' as timestamp) <> try_cast(' ~ text ~ ' as timestamp), true)') }}
    {%- elif base == 'binary' -%}
        {{ return('(' ~ cast_text ~ ' is null or length(' ~ text ~ ') % 2 = 1)') }}
    {%- elif base.startswith('timestamp') -%}
        {{ return('(' ~ cast_text ~ ' is null or ' ~ afterimage._has_no_date(text) ~ ')') }}
    {%- endif -%}
    {{ return(cast_text ~ ' is null') }}
{%- endmacro -%}


{#- A struct of the data columns from a map of texts. `filled` gives another map for columns that are missing here. -#}
{%- macro _qlik_image(columns, values, fill_from=none, filled=[]) -%}
named_struct(
    {%- for column in columns %}
    {%- set text = values ~ '[' ~ afterimage._literal(column.name) ~ ']' %}
    {%- if column.name in filled %}
    {%- set text = 'coalesce(' ~ text ~ ', ' ~ fill_from ~ '[' ~ afterimage._literal(column.name) ~ '])' %}
    {%- endif %}
    {{ afterimage._literal(column.name) }}, {{ afterimage._qlik_cast(text, column.type) }}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)
{%- endmacro -%}


{#- What is wrong with the values of a map: an array of texts, empty if nothing is. -#}
{%- macro _qlik_misfits(columns, values, what) -%}
    {%- set checks = [] -%}
    {%- for column in columns -%}
        {%- set text = values ~ '[' ~ afterimage._literal(column.name) ~ ']' -%}
        {%- set misfit = afterimage._qlik_misfit(text, column.type) -%}
        {%- if misfit is not none -%}
            {%- do checks.append(
                'if(' ~ text ~ ' is not null and ' ~ misfit ~ ', concat('
                ~ afterimage._literal(column.name ~ what ~ ' "') ~ ', left(' ~ text ~ ', 60), '
                ~ afterimage._literal('" (' ~ column.type ~ ')') ~ '), null)'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not checks -%}
        {{ return("cast(array() as array<string>)") }}
    {%- endif -%}
    {{ return('array_compact(array(' ~ checks | join(', ') ~ '))') }}
{%- endmacro -%}


{#- Whether a mask has the bit of a column, by the ordinals of the message's own schema. NULL where there is no mask,
    false where the schema has no such column. -#}
{%- macro _qlik_has_bit(mask_ordinals, column) -%}
    {{ return(
        'coalesce(array_contains(' ~ mask_ordinals ~ ', ordinals[' ~ afterimage._literal(column.name)
        ~ ']), if(' ~ mask_ordinals ~ ' is null, null, false))'
    ) }}
{%- endmacro -%}


{#- The columns that changed, in their order. LOBs have no bit in changeMask: whether one changed is seen from its
    values, where both are there. -#}
{%- macro _qlik_message_changed(columns, with_schemas) -%}
array_compact(array(
    {%- for column in columns %}
    {%- set name = afterimage._literal(column.name) %}
    if(
        {{ afterimage._qlik_has_bit('changed_ordinals', column) }}
        {%- if column.lob or with_schemas %}
        or (
            {{ afterimage._qlik_is_lob(column, with_schemas) }}
            and if(
                operation_word = 'UPDATE',
                map_contains_key(data, {{ name }}) and map_contains_key(before_data, {{ name }})
                and not data[{{ name }}] <=> before_data[{{ name }}],
                data[{{ name }}] is not null
            )
        )
        {%- endif %},
        {{ name }},
        null
    ){{ ',' if not loop.last }}
    {%- endfor %}
))
{%- endmacro -%}


{%- macro _qlik_is_lob(column, with_schemas) -%}
    {%- set declared = 'true' if column.lob else 'false' -%}
    {%- if not with_schemas -%}
        {{ return(declared) }}
    {%- endif -%}
    {{ return('coalesce(array_contains(lob_columns, ' ~ afterimage._literal(column.name) ~ '), ' ~ declared ~ ')') }}
{%- endmacro -%}


{#- Columns whose NULL means "unknown": not in the message, or not in its columnMask. Without that mask an update's
    changeMask serves: what did not change is as it was. It says nothing of LOBs. -#}
{%- macro _qlik_message_absent(columns, keys, with_schemas) -%}
nullif(
    array_compact(array(
        {%- for column in columns if column.name not in keys %}
        {%- set name = afterimage._literal(column.name) %}
        if(
            data[{{ name }}] is null
            and (
                not map_contains_key(data, {{ name }})
                or coalesce(
                    not {{ afterimage._qlik_has_bit('present_ordinals', column) }},
                    operation_word = 'UPDATE'
                    and not {{ afterimage._qlik_has_bit('changed_ordinals', column) }}
                    and not {{ afterimage._qlik_is_lob(column, with_schemas) }},
                    false
                )
            ),
            {{ name }},
            null
        ){{ ',' if not loop.last }}
        {%- endfor %}
        {%- if columns | length == keys | length %}cast(null as string){% endif %}
    )),
    cast(array() as array<string>)
)
{%- endmacro -%}


{#- The places of the columns where the caller's list has to say them: {map, list} of SQL. -#}
{%- macro _qlik_given_ordinals(names) -%}
    {%- set entries = [] -%}
    {%- for name in names -%}
        {%- do entries.append(afterimage._literal(name) ~ ', ' ~ loop.index) -%}
    {%- endfor -%}
    {{ return({
        'map': 'map(' ~ entries | join(', ') ~ ')',
        'list': 'sequence(1, ' ~ (names | length) ~ ')',
    }) }}
{%- endmacro -%}
