{{ config(materialized='change_stream') }}

{{
    afterimage.openedge_change_table(
        ref('openedge_bins'),
        unique_key=['Bin-Num'],
        tracking=ref('openedge__cdc_change_tracking'),
        source_table_number=20, policy_level=0
    )
}}
