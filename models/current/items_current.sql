{{ current_state(ref('items_history')) }}
