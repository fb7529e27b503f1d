{#- Checks a list of {name, type} and returns it with the types as Spark knows them, and with the `precision` that a
    time may have. `further` are types that the macro takes besides those that any column may have, `encodings` what a
    column may name as its `encoding`. -#}
{%- macro _typed_columns(macro_name, columns, further=[], encodings=none) -%}
    {%- set types = [
        'string', 'boolean', 'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'date', 'timestamp',
        'timestamp_ntz', 'binary', 'decimal(p,s)'
    ] + further -%}
    {%- set allowed = types | join('|') | replace('(p,s)', '[(] *[0-9]+ *, *[0-9]+ *[)]')
        | replace('(p)', '[(][0-9][)]') -%}
    {%- if columns is string or columns is mapping or columns is not sequence or not columns -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `columns` must be a list of {name, type}, with at least one. Got: " ~ columns
        ) -%}
    {%- endif -%}
    {%- set typed = [] -%}
    {%- for column in columns -%}
        {%- if column is not mapping or column.name is not string or not column.name or column.type is not string
            or not modules.re.fullmatch(allowed, column.type | lower | trim) -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": each of `columns` must be a {name, type} with one of the types " ~ types | join(', ')
                ~ ". Got: " ~ column
            ) -%}
        {%- endif -%}
        {%- if encodings and column.encoding is defined -%}
            {%- do afterimage._check_choice(macro_name, 'encoding', column.encoding, encodings) -%}
        {%- endif -%}
        {%- set type = column.type | lower | replace(' ', '') -%}
        {%- set precision = type[-2] | int if type.startswith('timestamp') and type.endswith(')') else none -%}
        {%- do typed.append(dict(
            column, type=type.split('(')[0] if precision is not none else type, precision=precision
        )) -%}
    {%- endfor -%}
    {%- do afterimage._check_names(macro_name, 'columns', typed | map(attribute='name') | list) -%}
    {{ return(typed) }}
{%- endmacro -%}
