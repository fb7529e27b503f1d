{{ config(
    materialized='table' if target.name == 'parquet' else 'incremental',
    incremental_strategy='merge',
    unique_key='schema_column_id'
) }}

{{ afterimage.qlik_message_schemas(ref('qlik_crm__metadata')) }}
