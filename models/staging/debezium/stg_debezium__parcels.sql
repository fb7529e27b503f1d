{{
    debezium_messages(
        ref('debezium_parcels__messages'),
        unique_key=['parcel_id'],
        columns=[
            {'name': 'parcel_id', 'type': 'int'},
            {'name': 'state', 'type': 'string'},
            {'name': 'weight', 'type': 'decimal(8,2)'},
            {'name': 'labels', 'type': 'array<string>'},
            {'name': 'photo', 'type': 'binary'},
            {'name': 'due', 'type': 'date'},
            {'name': 'seen_at', 'type': 'timestamp(6)'},
        ],
        key='key',
        table='public.parcels',
        headers='headers',
        null_is_absent=[]
    )
}}
