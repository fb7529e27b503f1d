{{ current_state(ref('accounts_history')) }}
