{{ config(materialized='table') }}

{{ afterimage.current_state(ref('usr_history')) }}
