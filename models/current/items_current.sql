{{ config(materialized='table') }}

{{ afterimage.current_state(ref('items_history')) }}
