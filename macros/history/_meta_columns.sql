{#- Our columns of a history, quoted, keyed by their names in this project. -#}
{%- macro _meta_columns(macro_name, meta_column_names, columns, ours=none) -%}
    {%- set ours = ours or [
        'valid_from', 'valid_to', 'valid_from_seq', 'valid_to_seq', 'is_current', 'is_deleted', 'version', 'operation',
        'closed_by', 'transaction_id', 'history_id'
    ] -%}
    {%- set renamed = meta_column_names or {} -%}
    {%- for name in renamed -%}
        {%- do afterimage._check_choice(macro_name, 'meta_column_names', name, ours) -%}
    {%- endfor -%}
    {%- set names = {} -%}
    {%- for name in ours -%}
        {%- set chosen = renamed.get(name, name) -%}
        {%- if chosen | lower in columns | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": the data column `" ~ chosen ~ "` has the name of a column that Afterimage adds. Rename"
                ~ " Afterimage's column: meta_column_names={'" ~ name ~ "': '_" ~ name ~ "'}"
            ) -%}
        {%- endif -%}
        {%- do names.update({name: afterimage._quote(chosen)}) -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro -%}
