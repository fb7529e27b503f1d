{{
    afterimage.sqlserver_change_table(
        ref('sqlserver_crates_v2_ct'), unique_key=['crate_id'], earlier=ref('sqlserver_crates_ct')
    )
}}
