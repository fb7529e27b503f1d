{#- A key of two texts, no table to read from. -#}
{{
    afterimage.netiq_event_log(
        ref('netiq_usr_log'),
        unique_key=['a', 'b'],
        table='pairs',
        columns=[
            {'name': 'a', 'type': 'string'},
            {'name': 'B', 'type': 'string'},
            {'name': 'amount', 'type': 'decimal(6,2)'},
            {'name': 'born', 'type': 'date'},
            {'name': 'seen', 'type': 'timestamp'},
            {'name': 'fit', 'type': 'boolean'},
            {'name': 'size', 'type': 'int'},
            {'name': 'ratio', 'type': 'double'},
        ],
        trim_key_numbers=var('unit_trim_key_numbers', false)
    )
}}
