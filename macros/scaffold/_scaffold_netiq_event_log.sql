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
