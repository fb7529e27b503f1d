{{ config(materialized='table') }}

{{ afterimage.current_state(ref('orders_history')) }}
