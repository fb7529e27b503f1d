{#- Raises an error for a relation that is not a change stream, most likely a raw table without its source macro. -#}
{%- macro _check_contract(macro_name, stream, needed) -%}
    {%- set found = {} -%}
    {%- for column in run_query('describe query select * from ' ~ stream ~ ' as changes') -%}
        {%- do found.update({column['col_name'] | lower: column['data_type'] | lower}) -%}
    {%- endfor -%}
    {%- set missing = [] -%}
    {%- for name in [
        'change_id', 'change_seq', 'operation', 'before', 'after', 'absent_columns', 'changed_at', 'transaction_id',
        'reject_reason'
    ] + needed -%}
        {%- if name not in found or (name in ['before', 'after'] and not found[name].startswith('struct<')) -%}
            {%- do missing.append(name) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": this is not a change stream: missing " ~ missing ~ " (`before` and `after` must be"
            ~ " structs). Stage a raw table with the macro of its source system first. Got: " ~ found.keys() | list
        ) -%}
    {%- endif -%}
{%- endmacro -%}
