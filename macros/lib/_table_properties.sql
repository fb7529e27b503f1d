{%- macro _table_properties(relation) -%}
    {{ return(dict(run_query('show tblproperties ' ~ relation).rows | map('list') | list)) }}
{%- endmacro -%}
