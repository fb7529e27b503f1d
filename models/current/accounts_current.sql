{{ config(
    materialized='view' if target.name == 'delta' else 'table',
    post_hook='{{ afterimage.expire_snapshots() }}'
) }}

{{ afterimage.current_state(ref('accounts_history')) }}
