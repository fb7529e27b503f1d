{{
    afterimage.debezium_messages(
        ref('debezium_lockers__messages'),
        unique_key=['id'],
        columns=[
            {'name': 'id', 'type': 'int'},
            {'name': 'name', 'type': 'string'},
            {'name': 'price', 'type': 'decimal(10,3)'},
            {'name': 'whole', 'type': 'decimal(10,0)'},
            {'name': 'at', 'type': 'timestamp(6)'},
            {'name': 'photo', 'type': 'binary'},
        ],
        key='key',
        position=['partition', 'offset'],
        schemas=ref('debezium_lockers__schemas')
    )
}}
