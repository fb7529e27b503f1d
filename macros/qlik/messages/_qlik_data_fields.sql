{#- The fields of a data message that are read. Others are ignored. -#}
{%- macro _qlik_data_fields() -%}
    {{ return({
        'schema': 'string',
        'table': 'string',
        'headers': 'struct<operation: string, changeSequence: string, `timestamp`: string, transactionId: string,'
            ~ ' changeMask: string, columnMask: string, externalSchemaId: string, transactionEventCounter: string,'
            ~ ' transactionLastEvent: string, schema: string, `table`: string>',
        'data': 'map<string, string>',
        'beforeData': 'map<string, string>',
        'schemaId': 'string',
        'lineage': 'struct<schema: string, `table`: string>',
    }) }}
{%- endmacro -%}
