{{
    afterimage.qlik_messages(
        ref('qlik_accounts__messages'),
        unique_key=['ID'],
        columns=[
            {'name': 'ID', 'type': 'int'},
            {'name': 'NAME', 'type': 'string'},
            {'name': 'tableName', 'type': 'string'},
        ]
    )
}}
