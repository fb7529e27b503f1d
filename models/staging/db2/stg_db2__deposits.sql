{{ config(materialized='change_stream') }}

{{ afterimage.db2_change_data(ref('db2_deposits_cd'), unique_key=['ID'], uow=ref('db2_uow')) }}
