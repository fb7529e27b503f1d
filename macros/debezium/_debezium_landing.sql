{#- The columns of a landing: SQL by name. With `schemas` they are those of the query `opened`. -#}
{%- macro _debezium_landing(relation, value, key, position, headers, schemas) -%}
    {%- set found = afterimage._message_columns('debezium_messages', relation, value) -%}
    {%- set names = found.values() | map(attribute='name') | list -%}
    {%- set columns = {} -%}
    {%- for argument, column in {'value': value, 'key': key, 'headers': headers}.items() -%}
        {%- do afterimage._check_known('debezium_messages', argument, [column] if column else [], names) -%}
        {%- do columns.update({argument: {
            'sql': afterimage._quote(column) if column else 'cast(null as string)',
            'type': found[column | lower].type if column else 'string',
        }}) -%}
    {%- endfor -%}
    {%- do afterimage._check_known('debezium_messages', 'position', position, names) -%}
    {%- set numbers = afterimage._number_texts(position or []) -%}
    {%- set landing = {
        'opened': none,
        'value': afterimage._valid_text(columns.value.sql),
        'key': afterimage._valid_text(columns.key.sql),
        'key_row': afterimage._valid_text(columns.key.sql),
        'unread': 'cast(null as string)',
        'no_frame': "'Avro is read from a binary column, and with `schemas`'",
        'headers': afterimage._valid_text(columns.headers.sql),
        'position': 'concat(' ~ numbers | join(', ') ~ ')' if position else 'cast(null as string)',
        'partition': 'concat(' ~ (numbers[:-1] + ["''"]) | join(', ') ~ ')',
        'place': 'landed_position' if position else "concat(m.log_place, if(m.kind = 'reload', '.i', ''))",
        'no_place': "'a column of `position` is no number'" if position else 'to_json(m.source)',
    } -%}
    {%- if schemas is not none -%}
        {%- do afterimage._check_columns('debezium_messages', 'schemas', schemas, ['id', 'schema']) -%}
        {%- do landing.update({
            'opened': afterimage._debezium_opened(columns.value, columns.key, schemas),
            'value': 'afterimage_value', 'key': 'afterimage_key', 'key_row': 'afterimage_key_row',
            'unread': 'afterimage_unread',
        }) -%}
        {%- if columns.value.type == 'binary' -%}
            {%- do landing.update({'no_frame': "'not an Avro message: it ends before the id of its schema'"}) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(landing) }}
{%- endmacro -%}
