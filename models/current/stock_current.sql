{{ current_state(ref('stock_history')) }}
