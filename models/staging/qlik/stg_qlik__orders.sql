{{ config(materialized='change_stream') }}

{{ afterimage.qlik_change_table(ref('qlik_orders__ct'), unique_key=['customer_id', 'order_no']) }}
