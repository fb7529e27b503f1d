{{ config(materialized='change_stream') }}

{{ afterimage.db2_change_data(ref('db2_stock_ccd'), unique_key=['ITEM'], condensed=true) }}
