{#- One capture instance, whose bytes are landed as text: dbt cannot write bytes into a unit test. -#}
{{
    afterimage.sqlserver_change_table(
        ref('sqlserver_crates_v2_ct'),
        unique_key=['crate_id'],
        lsn_times=ref('sqlserver_crates_lsn_times'),
        time_zone=var('unit_time_zone', 'UTC')
    )
}}
