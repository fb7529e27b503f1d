{{ config(materialized='change_stream') }}

{{
    afterimage.openedge_change_table(
        ref('openedge_items__cdc'),
        unique_key=['Item-Num'],
        tracking=ref('openedge__cdc_change_tracking'),
        source_table_number=12
    )
}}
