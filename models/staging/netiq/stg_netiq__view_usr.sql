{{ config(materialized='change_stream') }}

{#- Only to show the rule: for a history of the table, leave `driver_user` out. -#}
{{
    afterimage.netiq_event_log(
        ref('netiq_view_usr_log'),
        unique_key=['pk_empno'],
        table='view_usr',
        columns=[
            {'name': 'pk_empno', 'type': 'bigint'},
            {'name': 'fname', 'type': 'string'},
            {'name': 'salary', 'type': 'decimal(10,2)'},
            {'name': 'hired_on', 'type': 'date'},
        ],
        base=ref('netiq_view_usr'),
        driver_user='IDMDRIVER',
        force_username_case='upper',
        future_events=true,
        as_of='2026-02-01',
        column_names={
            'record_id': 'rec',
            'table_key': 'pkey',
            'status': 'state',
            'event_type': 'kind',
            'event_time': 'at',
            'perpetrator': 'who',
            'table_name': 'view_name',
            'column_name': 'field',
            'old_value': 'was',
            'new_value': 'becomes',
        }
    )
}}
