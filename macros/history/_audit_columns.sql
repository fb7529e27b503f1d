{#- The columns of an audit, after the key. -#}
{%- macro _audit_columns() -%}
    {{ return([
        'change_id', 'change_seq', 'operation', 'changed_at', 'transaction_id', 'changed_by', 'column_name', 'old_value',
        'new_value', 'old_value_from'
    ]) }}
{%- endmacro -%}
