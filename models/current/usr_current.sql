{{ current_state(ref('usr_history')) }}
