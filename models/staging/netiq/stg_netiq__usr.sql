{{ config(materialized='change_stream') }}

{#- Only to show the rule: for a history of the table, leave `driver_user` out. -#}
{{
    afterimage.netiq_event_log(
        ref('netiq_usr_log'),
        unique_key=['idu'],
        table='usr',
        columns=[
            {'name': 'idu', 'type': 'int'},
            {'name': 'fname', 'type': 'string'},
            {'name': 'lname', 'type': 'string'},
            {'name': 'photo', 'type': 'binary'},
        ],
        base=ref('netiq_usr'),
        driver_user='IDMDRIVER'
    )
}}
