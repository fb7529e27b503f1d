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
        driver_user='IDMDRIVER',
        allow_loopback=var('unit_allow_loopback', false),
        force_username_case=var('unit_force_username_case', none),
        future_events=var('unit_future_events', false),
        statuses=var('unit_statuses', ['N']),
        as_of='2026-02-01 00:00:00'
    )
}}
