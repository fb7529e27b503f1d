{#- The proof of an erasure: a search of all files that are left of its tables, whether a version needs them or not. It
    says so, line by line, or ends with an error that names the files. -#}
{%- macro _proof_lines(plan) -%}
    {%- set lines = [] -%}
    {%- for table in afterimage._tables_erased(plan) -%}
        {%- set left = afterimage._of_format(table.format, 'files_left')(
            table.relation, afterimage._searched_columns(table, plan),
            afterimage._has_key(table.images, plan.unique_key, afterimage._keys_of_plan(plan))
        ) -%}
        {%- if left -%}
            {%- do exceptions.raise_compiler_error(
                'erase: ' ~ table.name ~ ' has files that belong to no version of it, and may have rows of these keys. A'
                ~ ' run that was killed left them. Remove the files. Run the command again then. Got: ' ~ left | join(', ')
            ) -%}
        {%- endif -%}
        {%- do lines.append(table.name ~ ': no file has rows of these keys') -%}
    {%- endfor -%}
    {{ return(lines) }}
{%- endmacro -%}


{#- The columns in which a file has keys, with their types: of the table itself, or of its images. -#}
{%- macro _searched_columns(table, plan) -%}
    {%- set is_stream = table.images | length > 1 -%}
    {%- set types = afterimage._column_types(
        afterimage._stream_columns('erase', table.relation) if is_stream else afterimage._relation_columns(table.relation)
    ) -%}
    {%- set fields = [] -%}
    {%- for column in plan.unique_key -%}
        {%- for name, type in types.items() if name | lower == column | lower -%}
            {%- do fields.append(afterimage._quote(name) ~ (': ' if is_stream else ' ') ~ type) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set row = fields | join(', ') -%}
    {{ return('`before` struct<' ~ row ~ '>, `after` struct<' ~ row ~ '>' if is_stream else row) }}
{%- endmacro -%}
