{#- The columns of the change contract, in order, without `ingested_at`, which comes last. -#}
{%- macro _contract_columns() -%}
    {{ return([
        'change_id', 'change_seq', 'operation', 'before', 'after', 'changed_columns', 'absent_columns', 'changed_at',
        'transaction_id', 'reject_reason', 'warnings', 'source_rows', 'changed_by'
    ]) }}
{%- endmacro -%}
