{#- What `scaffold` reads from a table of each system. Each macro returns a plan: the source `table`, its `unique_key`
    and `columns`, what else the source macro is called with (`call`: argument -> text), the rows that landed for this
    model (`landed_rows`: what every_row_accounted_for reads; none where nobody can tell), whether the system has
    before-images, and `notes`. -#}

{%- macro _scaffold_qlik_change_table(landed, others, unique_key, table, arguments) -%}
    {%- set prefix = afterimage._scaffold_prefix(landed, arguments) -%}
    {%- set data = [] -%}
    {%- for column in landed.columns if afterimage._qlik_header_name(column.name, prefix) is none -%}
        {%- do data.append(column) -%}
    {%- endfor -%}
    {%- if not data -%}
        {%- do afterimage._scaffold_stop(landed.name ~ " has no columns but those of its header.") -%}
    {%- endif -%}
    {%- set mask_encoding = arguments.get('mask_encoding') -%}
    {%- set layout = afterimage._qlik_layout(
        landed.relation, [data[0].name], none, prefix, arguments.get('header_columns'), mask_encoding
    ) -%}
    {%- set notes = [] -%}

    {%- if unique_key is none -%}
        {%- set query -%}
            select to_json(flagged) as ordinals, count(*) as deletes
            from (
                select decode_change_mask(
                    {{ layout.header.change_mask }}, {{ layout.header_columns }}
                    {%- if mask_encoding %}, '{{ mask_encoding }}'{% endif %}
                ) as flagged
                from {{ landed.relation }}
                where {{ layout.header.change_oper }} = 'D' or {{ layout.header.operation }} = 'DELETE'
            ) as deletes
            where size(flagged) > 0 and array_max(flagged) <= {{ layout.ordinals | length }}
            group by flagged
            order by deletes desc, flagged
        {%- endset -%}
        {%- set masks = run_query(query).rows -%}
        {%- set ordinals = fromjson(masks[0]['ordinals']) if masks else [] -%}
        {%- set unique_key = [] -%}
        {%- if ordinals and ordinals | length < data | length -%}
            {%- for ordinal in ordinals -%}
                {%- do unique_key.append(layout.ordinals[ordinal - 1]) -%}
            {%- endfor -%}
            {%- do notes.append(afterimage._scaffold_guess(
                unique_key, 'the change masks of ' ~ masks[0]['deletes'] ~ ' deletes, which flag the key alone'
            )) -%}
        {%- else -%}
            {%- do afterimage._scaffold_no_key(landed, 'no delete has a mask that flags some of the columns', data) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return({
        'table': modules.re.sub('(?i)__ct$', '', landed.identifier),
        'unique_key': unique_key,
        'columns': data,
        'call': {} if prefix == 'header__' else {'header_prefix': afterimage._literal(prefix)},
        'landed_rows': landed.reference,
        'has_before_images': true,
        'notes': notes,
    }) }}
{%- endmacro -%}


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


{%- macro _scaffold_netiq_event_log(landed, others, unique_key, table, arguments) -%}
    {%- set log = afterimage._netiq_log_columns('scaffold', landed.relation, arguments.get('column_names', {})) -%}
    {%- set notes = [] -%}
    {%- set query -%}
        select trim({{ log.table_name }}) as name, count(*) as events
        from {{ landed.relation }}
        where trim({{ log.table_name }}) <> ''
        group by 1
        order by events desc, name
    {%- endset -%}
    {%- set tables = run_query(query).columns[0].values() | list -%}
    {%- if table is none and tables | map('lower') | unique | list | length != 1 -%}
        {%- do afterimage._scaffold_stop(
            landed.name ~ " has events of " ~ (tables | length or 'no') ~ " tables, so say which with `table`: "
            ~ tables | join(', ')
        ) -%}
    {%- endif -%}
    {%- set table_name = table or tables[0] -%}
    {%- set events_of_table -%}
        from {{ landed.relation }}
        where lower(trim({{ log.table_name }})) = {{ afterimage._literal(table_name | lower) }}
    {%- endset -%}

    {%- set query -%}
        select to_json(names) as names, count(*) as events
        from (select map_keys(parse_table_key({{ log.table_key }}).parts) as names {{ events_of_table }}) as keys
        where size(names) > 0
        group by names
        order by events desc, names
    {%- endset -%}
    {%- set keys = run_query(query).rows -%}
    {%- if unique_key is none and not keys -%}
        {%- do afterimage._scaffold_stop(
            "no table_key of " ~ table_name ~ " in " ~ landed.name ~ " can be read. Give `unique_key`."
        ) -%}
    {%- elif unique_key is none -%}
        {%- set unique_key = fromjson(keys[0]['names']) -%}
        {%- do notes.append(afterimage._scaffold_guess(unique_key, 'table_key of ' ~ keys[0]['events'] ~ ' events')) -%}
    {%- endif -%}

    {%- if 'base' in others -%}
        {%- set columns = others.base.columns -%}
        {%- set spelled = columns | map(attribute='name') | list -%}
        {%- do afterimage._check_known('scaffold', 'unique_key (of `base`)', unique_key, spelled) -%}
        {%- set unique_key = afterimage._as_spelled(unique_key, spelled) -%}
    {%- else -%}
        {%- set columns = [] -%}
        {%- set query -%}
            select min(trim({{ log.column_name }})) as name
            {{ events_of_table }} and trim({{ log.column_name }}) <> ''
            group by lower(trim({{ log.column_name }}))
            order by min({{ log.record_id }})
        {%- endset -%}
        {%- set logged = run_query(query).columns[0].values() | list -%}
        {%- for name in unique_key + (logged | reject('in', unique_key) | list) -%}
            {%- do columns.append({'name': name, 'type': 'string'}) -%}
        {%- endfor -%}
        {%- do notes.append(
            'columns: those that the log names, all as text. Give `base`, the table with the present rows, and they'
            ~ ' have its types.'
        ) -%}
        {%- set query -%}
            select count(*) {{ events_of_table }} and cast({{ log.event_type }} as int) in (5, 6, 7, 8)
        {%- endset -%}
        {%- set query_backs = run_query(query).columns[0].values()[0] -%}
        {%- if query_backs > 0 -%}
            {%- do notes.append(
                query_backs ~ ' events are query-back: they say that a row changed and not to what, and are rejected'
                ~ ' without `base`.'
            ) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set call = {
        'table': afterimage._literal(table_name), 'columns': afterimage._scaffold_column_list(columns)
    } -%}
    {%- if 'base' in others -%}
        {%- do call.update({'base': others.base.reference}) -%}
    {%- endif -%}
    {{ return({
        'table': table_name,
        'unique_key': unique_key,
        'columns': columns,
        'call': call,
        'landed_rows': landed.reference if tables | map('lower') | unique | list | length == 1
            else '(' ~ afterimage._scaffold_rows(
                landed,
                'lower(trim(' ~ log.table_name ~ ')) = ' ~ afterimage._literal(table_name | lower)
                ~ " or coalesce(trim(" ~ log.table_name ~ "), '') = ''"
            ) ~ ')',
        'has_before_images': false,
        'notes': notes,
    }) }}
{%- endmacro -%}


{%- macro _scaffold_db2_change_data(landed, others, unique_key, table, arguments) -%}
    {%- set found = [] -%}
    {%- set types = {} -%}
    {%- for column in landed.columns if not (column.name | upper).startswith('IBMSNAP_') -%}
        {%- do found.append(column.name) -%}
        {%- do types.update({column.name | lower: column.type}) -%}
    {%- endfor -%}
    {%- set images = afterimage._db2_before_columns(found, types, [], arguments.get('before_prefix', 'X') or '') -%}
    {%- set columns = [] -%}
    {%- for name in found if name not in images.values() -%}
        {%- do columns.append({'name': name, 'type': types[name | lower]}) -%}
    {%- endfor -%}
    {%- if unique_key is none -%}
        {%- do afterimage._scaffold_no_key(landed, 'replication tables do not tell it', columns) -%}
    {%- endif -%}
    {%- set notes = [] -%}
    {%- if 'uow' not in others and 'IBMSNAP_LOGMARKER' not in landed.columns | map(attribute='name') | map('upper') -%}
        {%- do notes.append(
            'changed_at will not be known: a CD table has no commit times. Give `uow`, the table IBMSNAP_UOW.'
        ) -%}
    {%- endif -%}
    {{ return({
        'table': modules.re.sub('(?i)_+(cd|ccd)$|^(cd|ccd)_+', '', landed.identifier),
        'unique_key': unique_key,
        'columns': columns,
        'call': {'uow': others.uow.reference} if 'uow' in others else {},
        'landed_rows': landed.reference,
        'has_before_images': true,
        'notes': notes,
    }) }}
{%- endmacro -%}


{%- macro _scaffold_db2_text_log(landed, others, unique_key, table, arguments) -%}
    {%- if 'base' not in others -%}
        {%- do afterimage._scaffold_stop(
            "give `base`, the table with the present rows: the log of a text index names keys and nothing else."
        ) -%}
    {%- endif -%}
    {%- set base = others.base -%}
    {%- set notes = [] -%}
    {%- if unique_key is none -%}
        {%- set log_keys = {} -%}
        {%- for column in landed.columns if modules.re.match('(?i)^pk[0-9]+$', column.name) -%}
            {%- do log_keys.update({column.name[2:] | int: column}) -%}
        {%- endfor -%}
        {%- set unique_key = [] -%}
        {%- set pairs = [] -%}
        {%- for number in log_keys.keys() | sort -%}
            {%- set fitting = base.columns | selectattr('type', 'equalto', log_keys[number].type)
                | rejectattr('name', 'in', unique_key) | map(attribute='name') | list -%}
            {%- if fitting -%}
                {%- do unique_key.append(fitting[0]) -%}
                {%- do pairs.append(
                    'log.' ~ afterimage._quote(log_keys[number].name) ~ ' = base.' ~ afterimage._quote(fitting[0])
                ) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- if unique_key | length < log_keys | length -%}
            {%- do afterimage._scaffold_no_key(base, 'no column has the type of each PKnn', base.columns) -%}
        {%- endif -%}
        {%- set query -%}
            select
                (select count(*) from {{ base.relation }}) as base_rows,
                (
                    select count(distinct {{ afterimage._quoted_list(unique_key) }}) from {{ base.relation }}
                ) as base_keys,
                (
                    select count(*)
                    from {{ landed.relation }} as log
                    left semi join {{ base.relation }} as base on {{ pairs | join(' and ') }}
                ) as matches
        {%- endset -%}
        {%- set checked = run_query(query).rows[0] -%}
        {%- if checked['base_rows'] != checked['base_keys'] or checked['matches'] == 0 -%}
            {%- do afterimage._scaffold_no_key(
                base, unique_key | join(', ') ~ ' would fit by type, but the rows speak against it', base.columns
            ) -%}
        {%- endif -%}
        {%- do notes.append(afterimage._scaffold_guess(
            unique_key, 'the types of PKnn: these columns of ' ~ base.name ~ ' have them, they tell its rows apart,'
            ~ ' and ' ~ checked['matches'] ~ ' rows of the log find theirs by them'
        )) -%}
    {%- endif -%}
    {{ return({
        'table': base.identifier,
        'unique_key': unique_key,
        'columns': base.columns,
        'call': {'base': base.reference},
        'landed_rows': landed.reference,
        'has_before_images': false,
        'notes': notes,
    }) }}
{%- endmacro -%}


{%- macro _scaffold_openedge_change_table(landed, others, unique_key, table, arguments) -%}
    {%- set found = afterimage._openedge_columns(landed.relation, [], arguments.get('field_map')) -%}
    {%- set columns = [] -%}
    {%- for column in found.data -%}
        {%- do columns.append({'name': column.name, 'type': column.type}) -%}
    {%- endfor -%}
    {%- if unique_key is none -%}
        {%- do afterimage._scaffold_no_key(landed, 'change tables do not tell it', columns) -%}
    {%- endif -%}
    {%- set notes = [] -%}
    {%- set call = {} -%}
    {%- if 'tracking' in others -%}
        {%- do call.update({'tracking': others.tracking.reference}) -%}
    {%- endif -%}

    {#- Which of the source tables it is, where a table says so: the change table's rows are of one, the tracking
        table's of all. -#}
    {%- set number = namespace(landed=arguments.get('source_table_number'), column=none) -%}
    {%- for place in ([others.tracking] if 'tracking' in others else []) + [landed] -%}
        {%- set metadata = afterimage._openedge_columns(place.relation, [], arguments.get('field_map')).metadata -%}
        {%- if 'table_number' in metadata and 'sequence' in metadata -%}
            {%- set number.column = metadata.table_number.name -%}
            {%- if number.landed is none -%}
                {%- set query -%}
                    select cast({{ afterimage._quote(number.column) }} as bigint) as table_number, count(*) as changes
                    from {{ place.relation }}
                    group by 1
                    having table_number is not null
                    order by 1
                {%- endset -%}
                {%- set numbers = run_query(query).columns[0].values() | map('int') | list -%}
                {%- if numbers | length != 1 -%}
                    {%- do afterimage._scaffold_stop(
                        place.name ~ " has changes of " ~ (numbers | length or 'no') ~ " source tables. Say which is"
                        ~ " that of " ~ landed.name ~ ": arguments: {source_table_number: N}, one of "
                        ~ numbers | join(', ')
                    ) -%}
                {%- endif -%}
                {%- set number.landed = numbers[0] -%}
                {%- do call.update({'source_table_number': number.landed | string}) -%}
                {%- do notes.append(
                    'source_table_number: ' ~ number.landed ~ ', the only one in ' ~ place.name ~ '.'
                ) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set landed_rows = landed.reference if number.column is none else none -%}
    {%- if 'tracking' in others -%}
        {%- set of_table = afterimage._quote(number.column) ~ ' = ' ~ number.landed if number.column else none -%}
        {%- set landed_rows = '(' ~ afterimage._scaffold_rows(landed) ~ ' union all '
            ~ afterimage._scaffold_rows(others.tracking, of_table) ~ ')' -%}
    {%- endif -%}
    {{ return({
        'table': modules.re.sub('(?i)_+cdc$|^cdc_+', '', landed.identifier),
        'unique_key': unique_key,
        'columns': columns,
        'call': call,
        'landed_rows': landed_rows,
        'has_before_images': true,
        'notes': notes,
    }) }}
{%- endmacro -%}


{%- macro _scaffold_stop(text) -%}
    {%- do exceptions.raise_compiler_error("scaffold: " ~ text) -%}
{%- endmacro -%}


{%- macro _scaffold_no_key(landed, why, columns) -%}
    {%- do afterimage._scaffold_stop(
        "the key cannot be guessed (" ~ why ~ "). Give `unique_key`, some of the columns of " ~ landed.name ~ ": "
        ~ columns | map(attribute='name') | join(', ')
    ) -%}
{%- endmacro -%}


{%- macro _scaffold_guess(unique_key, from_what) -%}
    {{ return('unique_key: ' ~ unique_key | join(', ') ~ ', guessed from ' ~ from_what ~ '. Look it over.') }}
{%- endmacro -%}


{#- A list of {name, type} as it stands in a model. -#}
{%- macro _scaffold_column_list(columns) -%}
    {%- set lines = [] -%}
    {%- for column in columns -%}
        {%- set name = afterimage._literal(column.name) -%}
        {%- do lines.append("        {'name': " ~ name ~ ", 'type': '" ~ column.type ~ "'},") -%}
    {%- endfor -%}
    {{ return('[\n' ~ lines | join('\n') ~ '\n    ]') }}
{%- endmacro -%}


{#- The rows of a landed table as a test reads them. -#}
{%- macro _scaffold_rows(landed, condition=none) -%}
    {{ return(
        'select 1 as landed from {' ~ '{ ' ~ landed.reference ~ ' }' ~ '}'
        ~ (' where ' ~ condition if condition else '')
    ) }}
{%- endmacro -%}
