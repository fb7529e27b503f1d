{#- The columns of a landing: SQL by name. -#}
{%- macro _debezium_landing(relation, value, key, position, headers) -%}
    {%- set found = afterimage._message_columns('debezium_messages', relation, value) -%}
    {%- set names = found.values() | map(attribute='name') | list -%}
    {%- set landing = {} -%}
    {%- for argument, column in {'value': value, 'key': key, 'headers': headers}.items() -%}
        {%- do afterimage._check_known('debezium_messages', argument, [column] if column else [], names) -%}
        {%- set expression = afterimage._quote(column) if column else 'null' -%}
        {%- do landing.update({argument: afterimage._valid_text(expression)}) -%}
    {%- endfor -%}
    {%- do afterimage._check_known('debezium_messages', 'position', position, names) -%}
    {%- set numbers = afterimage._number_texts(position or []) -%}
    {%- do landing.update({
        'position': 'concat(' ~ numbers | join(', ') ~ ')' if position else 'cast(null as string)',
        'partition': 'concat(' ~ (numbers[:-1] + ["''"]) | join(', ') ~ ')',
        'place': 'landed_position' if position else "concat(m.log_place, if(m.kind = 'reload', '.i', ''))",
        'no_place': "'a column of `position` is no number'" if position else 'to_json(m.source)',
    }) -%}
    {{ return(landing) }}
{%- endmacro -%}
