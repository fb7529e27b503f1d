{{
    afterimage.debezium_messages(
        ref('debezium_tickets__messages'),
        unique_key=['id'],
        columns=[
            {'name': 'id', 'type': 'int'},
            {'name': 'name', 'type': 'string'},
            {'name': 'amount', 'type': 'decimal(20,0)', 'encoding': 'text'},
        ],
        position=['partition', 'offset'],
        placeholder='?'
    )
}}
