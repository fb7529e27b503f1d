{{ config(materialized='change_stream') }}

{{ afterimage.qlik_messages(
    ref('qlik_accounts__messages'),
    unique_key=['ID'],
    columns=['ID', 'NAME', 'EMAIL', 'BALANCE', 'NOTES'],
    table='dbo.ACCOUNTS',
    metadata=ref('stg_qlik__message_schemas')
) }}
