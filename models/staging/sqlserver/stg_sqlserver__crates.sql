{{ config(materialized='change_stream') }}

{{
    afterimage.sqlserver_change_table(
        ref('sqlserver_crates_v2_ct'),
        unique_key=['crate_id'],
        lsn_times=ref('sqlserver_crates_lsn_times'),
        earlier=ref('sqlserver_crates_ct'),
        time_zone='Europe/Berlin'
    )
}}
