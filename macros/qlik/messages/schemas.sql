{#- The data columns: a list of {name, type, lob} in ordinal order. What the caller leaves out comes from the
    table's newest metadata message. It is read at compile time, since a struct's types are fixed. -#}
{%- macro _qlik_message_columns(columns, metadata, schema_rows, table) -%}
    {%- set macro_name = 'qlik_messages' -%}
    {%- set allowed = [
        'string', 'varchar', 'char', 'boolean', 'tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint',
        'long', 'float', 'real', 'double', 'decimal', 'dec', 'numeric', 'date', 'timestamp', 'timestamp_ltz',
        'timestamp_ntz', 'binary'
    ] -%}
    {%- if columns is none and metadata is none -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` must be a list of {name, type} in ordinal order, or `metadata` must be given to"
            ~ " read them from. Got: neither"
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
            macro_name ~ ": `columns` must be a list of {name, type} in ordinal order, with at least one. Got: "
            ~ columns
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_names(macro_name, 'columns', given | map(attribute='name') | list) -%}
    {%- for column in given -%}
        {%- set type = column.get('type') -%}
        {%- if type is not none and (type is not string or type.split('(')[0] | trim | lower not in allowed) -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": `columns` must give " ~ column.name ~ " one of the types " ~ allowed ~ ". Got: " ~ type
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if afterimage._needs_placeholder([metadata]) -%}
        {{ return([]) }}
    {%- endif -%}

    {%- set untyped = given | rejectattr('type') | map(attribute='name') | list -%}
    {%- set known = {} -%}
    {%- if columns is none or untyped -%}
        {%- set known = afterimage._qlik_known_columns(metadata, schema_rows, table, untyped) -%}
    {%- endif -%}
    {%- set typed = [] -%}
    {%- for column in (known.values() | list if columns is none else given) -%}
        {%- set found = known.get(column.name | lower, {}) -%}
        {%- do typed.append({
            'name': found.get('name', column.name),
            'type': afterimage._qlik_type_in_short(column.get('type') or found.get('type')),
            'lob': column.get('lob', found.get('lob', false)),
        }) -%}
    {%- endfor -%}
    {{ return(typed) }}
{%- endmacro -%}


{#- A type in the words that Spark uses for it: types are compared as texts. -#}
{%- macro _qlik_type_in_short(type) -%}
    {%- set base, digits = (type | lower | replace(' ', '') ~ '(').split('(')[:2] -%}
    {%- set base = {
        'varchar': 'string', 'char': 'string', 'byte': 'tinyint', 'short': 'smallint', 'integer': 'int', 'long': 'bigint',
        'real': 'float', 'dec': 'decimal', 'numeric': 'decimal', 'timestamp_ltz': 'timestamp'
    }.get(base, base) -%}
    {%- set digits = digits | replace(')', '') or '10' -%}
    {{ return(base if base != 'decimal' else 'decimal(' ~ digits ~ (')' if ',' in digits else ',0)')) }}
{%- endmacro -%}


{#- The columns of a table's newest schema by lower-case name, and from older schemas those in `wanted`. -#}
{%- macro _qlik_known_columns(metadata, schema_rows, table, wanted) -%}
    {%- set macro_name = 'qlik_messages' -%}
    {%- set missing_text = 'the type of ' ~ (wanted | join(', ')) if wanted else 'the columns' -%}
    {%- if metadata is none -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` leaves out " ~ missing_text ~ ". Give it, or give `metadata` to read it from."
        ) -%}
    {%- endif -%}
    {%- if metadata is not string and metadata.identifier.startswith('__dbt__cte__') -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ missing_text ~ " cannot be read in a unit test. Give `columns` with types."
        ) -%}
    {%- endif -%}
    {%- set query -%}
        select distinct
            schema_name, table_name, table_version, published_at, schema_id, column_name, spark_type, is_lob, ordinal
        from ({{ schema_rows }}) as schema_rows
        where
            reject_reason is null
            {%- if table is not none %}
            and {{ afterimage._is_table(table, 'schema_name', 'table_name') }}
            {%- endif %}
        order by
            published_at desc nulls last, table_version desc nulls last, schema_id desc, ordinal asc, column_name asc
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
    {%- set hint = ' If that is a model, `--empty` builds it without rows. Run it without `--empty` first.'
        if metadata.limit is number else '' -%}
    {%- set metadata = afterimage._whole(metadata) -%}
    {%- if found.tables | length > 1 -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `table` must be given, because " ~ metadata ~ " describes several tables. Allowed: "
            ~ found.tables ~ ". Got: " ~ table
        ) -%}
    {%- endif -%}
    {%- for name in wanted if name | lower not in known -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the type of the column " ~ name ~ " is not known: no metadata message in " ~ metadata
            ~ (" of the table " ~ table if table else "") ~ " has it. Give it in `columns`, or land newer messages."
            ~ hint
        ) -%}
    {%- endfor -%}
    {%- if not known -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": no metadata message in " ~ metadata ~ (" of the table " ~ table if table else "")
            ~ " has landed yet, so the columns are not known. Land one first, or give `columns` with types."
            ~ hint ~ afterimage._qlik_built_columns()
        ) -%}
    {%- endif -%}
    {{ return(known) }}
{%- endmacro -%}


{#- What to do where the staging table was built before, and the metadata messages have been deleted since. A full
    refresh would cost what only the table still has. -#}
{%- macro _qlik_built_columns() -%}
    {%- if not afterimage._is_incremental() -%}
        {{ return('') }}
    {%- endif -%}
    {%- set built = [] -%}
    {%- for column in afterimage._described('select `after`.* from ' ~ this) -%}
        {%- do built.append({'name': column.name, 'type': column.type}) -%}
    {%- endfor -%}
    {{ return(
        " If those that " ~ this ~ " was built with have been deleted, do not rebuild it: leave `metadata` as it is, and"
        ~ " give what it has, and `lob: true` for each LOB: columns=" ~ built
    ) }}
{%- endmacro -%}


{#- SQL for the rows of qlik_message_schemas. It is the relation itself if that is such a model; otherwise it is
    made from its metadata messages, which are in the same column as the data messages if that exists. Even a sample
    of the messages is read by all the schemas. None if the tables do not exist yet, or without metadata. -#}
{%- macro _qlik_schema_rows(metadata, value='value') -%}
    {%- if metadata is none or afterimage._needs_placeholder([metadata]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set whole = afterimage._whole(metadata) -%}
    {%- set names = afterimage._relation_columns(whole) | map(attribute='name') | map('lower') | list -%}
    {%- if 'schema_id' in names and 'data_schema' in names -%}
        {{ return('select * from ' ~ whole) }}
    {%- endif -%}
    {{ return(afterimage._qlik_described_schemas(whole, value if value | lower in names else 'value')) }}
{%- endmacro -%}


{#- The CTE `message_schemas`: what the metadata messages say about each schema id, and whether its columns are just the
    declared `names` in their order. -#}
{%- macro _qlik_message_schemas_by_id(schema_rows, names) -%}
message_schemas as (

    select
        schema_id,
        max(schema_name) as schema_name,
        max(table_name) as table_name,
        max(table_version) as table_version,
        max(published_at) as published_at,
        max(data_schema) as data_schema,
        max(data_schema) rlike '"(changeMask|columnMask)"[^}]*"bytes"' as has_masks_of_bytes,
        max(ordinal) as last_ordinal,
        map_from_entries(collect_set(struct(column_name, ordinal))) as ordinals,
        collect_set(ordinal) as all_ordinals,
        coalesce(
            transform(sort_array(collect_set(struct(ordinal, column_name))), c -> c.column_name)
            = {{ afterimage._string_array(names) }}
            and count(distinct ordinal) = {{ names | length }}
            and max(ordinal) = {{ names | length }},
            false
        ) as is_as_declared,
        collect_set(if(is_lob, column_name, null)) as lob_columns

    from ({{ schema_rows | indent(4) }}) as schema_rows
    where reject_reason is null
    group by schema_id

)
{%- endmacro -%}


{#- The reject reason of a message that waits for its schema; the schema's id follows. -#}
{%- macro _qlik_no_schema() -%}
'no metadata message has the schema id: '
{%- endmacro -%}
