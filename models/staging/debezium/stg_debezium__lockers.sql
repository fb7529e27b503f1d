{{ config(materialized='change_stream') }}

{{
    afterimage.debezium_messages(
        ref('debezium_lockers__messages'),
        unique_key=['locker_id'],
        columns=[
            {'name': 'locker_id', 'type': 'int'},
            {'name': 'label', 'type': 'string'},
            {'name': 'fee', 'type': 'decimal(8,2)'},
            {'name': 'photo', 'type': 'binary'},
            {'name': 'opened_on', 'type': 'date'},
            {'name': 'seen_at', 'type': 'timestamp(6)'},
        ],
        key='key',
        schemas=ref('debezium_lockers__schemas')
    )
}}
