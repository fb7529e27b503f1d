{{ config(materialized='change_stream') }}

{{
    afterimage.sqlserver_change_table(
        ref('sqlserver_orders_ct'), unique_key=['order_id'], lsn_times=ref('sqlserver_lsn_time_mapping')
    )
}}
