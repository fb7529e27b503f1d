{{ config(materialized='change_stream') }}

{{ afterimage.qlik_change_table(ref('orders__ct'), unique_key=['order_no']) }}
