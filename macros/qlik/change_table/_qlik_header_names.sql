{#- Qlik's names for the header columns of a change table, without the prefix. -#}
{%- macro _qlik_header_names() -%}
    {{ return([
        'change_seq', 'change_oper', 'change_mask', 'stream_position', 'operation', 'transaction_id', 'timestamp',
        'partition_name'
    ]) }}
{%- endmacro -%}
