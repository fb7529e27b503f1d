{%- macro _scaffold_qlik_messages(landed, others, unique_key, table, arguments) -%}
    {%- set value = arguments.get('value', 'value') -%}
    {%- set notes = [] -%}
    {%- set call = {} -%}
    {%- set metadata = others.metadata if 'metadata' in others else landed -%}
    {%- set query -%}
        select
            schema_name, table_name, table_version, published_at, schema_id, column_name, spark_type, ordinal,
            primary_key_position
        from ({{ afterimage.qlik_message_schemas(metadata.relation, value) }}) as schema_columns
        where
            reject_reason is null
            {%- if table is not none %}
            and {{ afterimage._qlik_is_table(table, 'schema_name', 'table_name') }}
            {%- endif %}
        order by
            table_version desc nulls last, published_at desc nulls last, schema_id desc, ordinal asc, column_name asc
    {%- endset -%}
    {%- set rows = run_query(query).rows -%}

    {%- if rows -%}
        {%- set tables = {} -%}
        {%- for row in rows -%}
            {%- set full_name = ([row['schema_name']] if row['schema_name'] else []) + [row['table_name']] -%}
            {%- do tables.update({full_name | join('.'): row['table_name']}) -%}
        {%- endfor -%}
        {%- if tables | length > 1 -%}
            {%- do afterimage._scaffold_stop(
                "the metadata messages in " ~ metadata.name ~ " are of several tables, so say which with `table`: "
                ~ tables.keys() | sort | join(', ')
            ) -%}
        {%- endif -%}
        {%- set columns = [] -%}
        {%- set keys = {} -%}
        {%- for row in rows if row['schema_id'] == rows[0]['schema_id'] -%}
            {%- do columns.append({'name': row['column_name'], 'type': row['spark_type']}) -%}
            {%- if row['primary_key_position'] -%}
                {%- do keys.update({row['primary_key_position'] | int: row['column_name']}) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- set table_name = tables.values() | first -%}
        {%- if table is not none -%}
            {%- do call.update({'table': "'" ~ tables.keys() | first ~ "'"}) -%}
        {%- endif -%}
        {%- do call.update({'metadata': metadata.reference}) -%}
        {%- if unique_key is none and keys -%}
            {%- set unique_key = [] -%}
            {%- for position in keys.keys() | sort -%}
                {%- do unique_key.append(keys[position]) -%}
            {%- endfor -%}
            {%- do notes.append(afterimage._scaffold_guess(unique_key, 'primaryKeyPosition of the metadata')) -%}
        {%- endif -%}
    {%- elif 'metadata' in others -%}
        {%- do afterimage._scaffold_stop(
            metadata.name ~ " has no metadata message" ~ (" of the table " ~ table if table else "") ~ "."
        ) -%}
    {%- else -%}
        {%- set seen = afterimage._scaffold_json_columns(landed, value) -%}
        {%- set columns = seen.columns -%}
        {%- set table_name = table or modules.re.sub('(?i)_+(messages|topic)$', '', landed.identifier) -%}
        {%- if table is not none -%}
            {%- do call.update({'table': "'" ~ table ~ "'"}) -%}
        {%- endif -%}
        {%- do call.update({'columns': afterimage._scaffold_column_list(columns)}) -%}
        {%- do notes.append(
            'columns: taken from the data of ' ~ seen.messages ~ ' messages, for there is no metadata message. Look'
            ~ ' over their types, and their order, by which masks count.'
        ) -%}
        {%- if unique_key is none and seen.deleted_by -%}
            {%- set unique_key = seen.deleted_by -%}
            {%- do notes.append(
                afterimage._scaffold_guess(unique_key, 'changeMask of a DELETE, which flags the key alone')
            ) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if unique_key is none -%}
        {%- do afterimage._scaffold_no_key(landed, 'neither metadata nor a mask of a DELETE tells it', columns) -%}
    {%- endif -%}
    {{ return({
        'table': table_name,
        'unique_key': unique_key,
        'columns': columns,
        'call': call,
        'landed_rows': landed.reference if table is none else none,
        'has_before_images': true,
        'notes': notes,
    }) }}
{%- endmacro -%}


{#- The columns that JSON messages have in `data`, with the types that hold all the values seen. -#}
{%- macro _scaffold_json_columns(landed, value) -%}
    {%- set column = afterimage._quote(value) -%}
    {%- set query -%}
        select cast({{ column }} as string) as message
        from {{ landed.relation }}
        where {{ column }} is not null
        limit 1000
    {%- endset -%}
    {%- set kinds = {} -%}
    {%- set names = {} -%}
    {%- set seen = namespace(messages=0, delete_mask=none) -%}
    {%- for row in run_query(query).rows -%}
        {%- set message = fromjson(row['message'], {}) -%}
        {%- set message = message if message is mapping else {} -%}
        {%- set body = message.message if message.message is mapping else message -%}
        {%- set headers = body.headers if body.headers is mapping else {} -%}
        {%- set seen.messages = seen.messages + (1 if body.data is mapping else 0) -%}
        {%- if headers.operation == 'DELETE' and headers.changeMask is string and headers.changeMask -%}
            {%- set seen.delete_mask = headers.changeMask | int(0, 16) -%}
        {%- endif -%}
        {%- for name, cell in (body.data if body.data is mapping else {}).items() -%}
            {%- do names.setdefault(name | lower, name) -%}
            {%- set kind = kinds.setdefault(name | lower, []) -%}
            {%- if cell is not none -%}
                {%- do kind.append(
                    'boolean' if cell is boolean else 'bigint' if cell is integer
                    else 'decimal(38,10)' if cell is float else 'string'
                ) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if not names -%}
        {%- do afterimage._scaffold_stop(
            landed.name ~ " has no JSON message with `data` and no metadata message, so its columns are not known. Give"
            ~ " `metadata`, the table that the metadata messages land in."
        ) -%}
    {%- endif -%}
    {%- set columns = [] -%}
    {%- set deleted_by = [] -%}
    {%- for key, name in names.items() -%}
        {%- set kind = kinds[key] | unique | sort | list -%}
        {%- set is_number = kind == ['bigint', 'decimal(38,10)'] -%}
        {%- set type = kind[0] if kind | length == 1 else 'decimal(38,10)' if is_number else 'string' -%}
        {%- do columns.append({'name': name, 'type': type}) -%}
        {%- if seen.delete_mask and (seen.delete_mask // 2 ** loop.index0) % 2 == 1 -%}
            {%- do deleted_by.append(name) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({
        'columns': columns,
        'messages': seen.messages,
        'deleted_by': deleted_by if deleted_by | length < columns | length else [],
    }) }}
{%- endmacro -%}
