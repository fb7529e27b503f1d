{#- A CCD table, with the options that a test asks for. -#}
{{
    afterimage.db2_change_data(
        ref('db2_spares_ccd'),
        unique_key=['PART_NO', 'WAREHOUSE'],
        condensed=var('unit_condensed', false),
        complete=var('unit_complete', none),
        pair_key_changes=var('unit_pair_key_changes', false),
        time_zone=var('unit_time_zone', 'UTC')
    )
}}
