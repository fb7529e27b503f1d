{#- One topic with several tables, their metadata, and transactions that are waited for. -#}
{{
    afterimage.qlik_messages(
        ref('qlik_accounts__messages'),
        unique_key=['ID'],
        columns=[
            {'name': 'ID', 'type': 'int'},
            {'name': 'NAME', 'type': 'string'},
            {'name': 'EMAIL', 'type': 'string'},
            {'name': 'BALANCE', 'type': 'decimal(12,2)'},
        ],
        table='ACCOUNTS',
        metadata=ref('stg_qlik__message_schemas'),
        complete_transactions=true
    )
}}
