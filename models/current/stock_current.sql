{{ config(materialized='table') }}

{{ afterimage.current_state(ref('stock_history')) }}
