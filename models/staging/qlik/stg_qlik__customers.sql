{{ config(materialized='change_stream') }}

{{ afterimage.qlik_change_table(source('raw', 'customers__ct'), unique_key=['id']) }}
