{%- macro _compact(relation) -%}
    {%- do afterimage._call_procedure(
        'rewrite_data_files', relation, ", options => map('delete-file-threshold', '1', 'min-input-files', '4')"
    ) -%}
    {%- do afterimage._call_procedure('rewrite_position_delete_files', relation) -%}
{%- endmacro -%}
