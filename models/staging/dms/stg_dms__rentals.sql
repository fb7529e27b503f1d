{{ config(materialized='change_stream') }}

{{
    afterimage.dms_changes(
        ref('dms_rentals'), unique_key=['rental_id'], time='dms_time', before_prefix='BI_', null_is_absent=['note']
    )
}}
