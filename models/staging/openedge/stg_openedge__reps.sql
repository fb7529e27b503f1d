{{ config(materialized='change_stream') }}

{{
    afterimage.openedge_change_table(
        ref('openedge_reps__cdc'),
        unique_key=['Sales-Rep'],
        tracking=ref('openedge__cdc_change_tracking'),
        source_table_number=15, policy_level=2, partition_resets='truncate'
    )
}}
