{{
    afterimage.dms_changes(
        ref('dms_stops'),
        unique_key=['stop_id'],
        columns=['stop_id', 'name'],
        order_by=['committed_at', 'file_name', 'row_number'],
        time='committed_at'
    )
}}
