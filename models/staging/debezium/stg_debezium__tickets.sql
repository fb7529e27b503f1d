{{ config(materialized='change_stream') }}

{{
    afterimage.debezium_messages(
        ref('debezium_tickets__messages'),
        unique_key=['ticket_id'],
        columns=[
            {'name': 'ticket_id', 'type': 'int'},
            {'name': 'subject', 'type': 'string'},
            {'name': 'price', 'type': 'decimal(16,2)'},
        ],
        position=['partition', 'offset']
    )
}}
