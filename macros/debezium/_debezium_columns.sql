{#- The data columns: a list of {name, type, unit, encoding}. `unit` is the power of ten by which a column counts the
    parts of a second; none where its type has no precision. -#}
{%- macro _debezium_columns(columns) -%}
    {%- do afterimage._check_typed_columns(
        'debezium_messages', columns, ['timestamp(p)', 'timestamp_ntz(p)', 'array<string>']
    ) -%}
    {%- set typed = [] -%}
    {%- for column in columns -%}
        {%- set encoding = column.get('encoding', 'base64') -%}
        {%- do afterimage._check_choice('debezium_messages', 'encoding', encoding, ['base64', 'hex', 'text']) -%}
        {%- set type = column.type | lower | replace(' ', '') -%}
        {%- set precision = type[-2] | int if type.startswith('timestamp') and type.endswith(')') else none -%}
        {%- do typed.append({
            'name': column.name,
            'type': type.split('(')[0] if precision is not none else type,
            'unit': none if precision is none else 3 if precision <= 3 else 6 if precision <= 6 else 9,
            'encoding': encoding,
        }) -%}
    {%- endfor -%}
    {%- do afterimage._check_names('debezium_messages', 'columns', typed | map(attribute='name') | list) -%}
    {{ return(typed) }}
{%- endmacro -%}
