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
    {%- if afterimage._cannot_read_columns([metadata]) -%}
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
            'type': (column.get('type') or found.get('type')) | lower,
            'lob': column.get('lob', found.get('lob', false)),
        }) -%}
    {%- endfor -%}
    {{ return(typed) }}
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
            macro_name ~ ": `table` must be given, because " ~ metadata ~ " describes several tables. Allowed: "
            ~ found.tables ~ ". Got: " ~ table
        ) -%}
    {%- endif -%}
    {%- for name in wanted if name | lower not in known -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the type of the column " ~ name ~ " is not known: no metadata message in " ~ metadata
            ~ (" of the table " ~ table if table else "") ~ " has it. Give it in `columns`, or land newer messages."
        ) -%}
    {%- endfor -%}
    {%- if not known -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": no metadata message in " ~ metadata ~ (" of the table " ~ table if table else "")
            ~ " has landed yet, so the columns are not known. Land one first, or give `columns` with types."
        ) -%}
    {%- endif -%}
    {{ return(known) }}
{%- endmacro -%}
