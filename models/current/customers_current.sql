{{ config(materialized='view' if target.name == 'delta' else 'table') }}

{{ afterimage.current_state(ref('customers_history')) }}
