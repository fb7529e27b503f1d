{{
    afterimage.debezium_messages(
        ref('debezium_parcels__messages'),
        unique_key=['id'],
        columns=[
            {'name': 'id', 'type': 'int'},
            {'name': 'name', 'type': 'string'},
            {'name': 'price', 'type': 'decimal(10,2)'},
            {'name': 'at', 'type': var('unit_time_type', 'timestamp(3)')},
            {'name': 'day', 'type': 'date'},
        ],
        key='key',
        table=var('unit_table', none),
        headers='headers'
    )
}}
