{{ config(materialized='change_stream') }}

{{ afterimage.db2_change_data(ref('db2_spares_ccd'), unique_key=['PART_NO', 'WAREHOUSE']) }}
