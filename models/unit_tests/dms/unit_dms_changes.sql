{{
    afterimage.dms_changes(
        ref('dms_rentals'),
        unique_key=['rental_id'],
        columns=['rental_id', 'car', 'note'],
        time=var('unit_dms_time', 'dms_time'),
        before_prefix=var('unit_dms_before_prefix', 'BI_'),
        null_is_absent=['note']
    )
}}
