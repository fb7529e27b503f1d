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
