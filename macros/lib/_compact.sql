{%- macro _compact(relation) -%}
    {%- set table = afterimage._literal(relation | string) -%}
    {%- do run_query(
        "call system.rewrite_data_files(table => " ~ table
        ~ ", options => map('delete-file-threshold', '1', 'min-input-files', '4'))"
    ) -%}
    {%- do run_query("call system.rewrite_position_delete_files(table => " ~ table ~ ")") -%}
{%- endmacro -%}
