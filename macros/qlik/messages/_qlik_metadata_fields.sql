{#- The fields of a metadata message, in the form that _qlik_opened_messages takes. -#}
{%- macro _qlik_metadata_fields() -%}
    {{ return({
        'schemaId': 'string',
        'lineage': 'struct<server: string, task: string, schema: string, `table`: string, tableVersion: string,'
            ~ ' `timestamp`: string>',
        'tableStructure': 'struct<tableColumns: map<string, struct<ordinal: string, type: string, length: string,'
            ~ ' `precision`: string, scale: string, primaryKeyPosition: string>>>',
        'dataSchema': 'string',
    }) }}
{%- endmacro -%}
