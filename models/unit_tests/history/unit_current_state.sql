{{ afterimage.current_state(ref('customers_history')) }}
