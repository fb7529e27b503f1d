{{ config(materialized='view' if target.name == 'delta' else 'table') }}

{{ afterimage.current_state(ref('items_history')) }}
