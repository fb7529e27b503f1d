{#- The columns of a landing: SQL by name. -#}
{%- macro _debezium_landing(relation, value, key, position, headers) -%}
    {%- set found = afterimage._message_columns('debezium_messages', relation, value) -%}
    {%- set names = found.values() | map(attribute='name') | list -%}
    {%- set landing = {} -%}
    {%- for argument, column in {'value': value, 'key': key, 'headers': headers}.items() -%}
        {%- do afterimage._check_known('debezium_messages', argument, [column] if column else [], names) -%}
        {%- set expression = afterimage._quote(found[column | lower].name) if column else 'null' -%}
        {%- do landing.update({argument: 'cast(' ~ expression ~ ' as string)'}) -%}
    {%- endfor -%}
    {%- do afterimage._check_known('debezium_messages', 'position', position, names) -%}
    {%- set numbers = [] -%}
    {%- for column in afterimage._quoted(position or []) -%}
        {%- set number = 'try_cast(' ~ column ~ ' as bigint)' -%}
        {%- do numbers.append('lpad(cast(if(' ~ number ~ ' >= 0, ' ~ number ~ ", null) as string), 19, '0')") -%}
    {%- endfor -%}
    {%- do landing.update({
        'position': 'concat(' ~ numbers | join(', ') ~ ')' if position else none,
        'partition': 'concat(' ~ (numbers[:-1] + ["''"]) | join(', ') ~ ')',
    }) -%}
    {{ return(landing) }}
{%- endmacro -%}
