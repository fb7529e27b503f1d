{{ config(materialized='change_stream') }}

{{ afterimage.qlik_messages(
    ref('qlik_parts__messages'),
    unique_key=['PLANT', 'PART_NO'],
    metadata=ref('qlik_parts__metadata')
) }}
