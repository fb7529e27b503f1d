{{ config(materialized='table') }}

{{ afterimage.current_state(ref('accounts_history')) }}
