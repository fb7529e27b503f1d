{#- Rows of a CCD table in, versions out. scd2 cannot look into a text, hence `columns`. -#}
{{
    afterimage.scd2(
        '(' ~ afterimage.db2_change_data(
            ref('db2_spares_ccd'),
            unique_key=['PART_NO', 'WAREHOUSE'],
            pair_key_changes=var('unit_pair_key_changes', false)
        ) ~ ')',
        unique_key=['PART_NO', 'WAREHOUSE'],
        columns=['PART_NO', 'WAREHOUSE', 'QTY', 'SCENARIO'],
        follow_keys=var('unit_follow_keys', false)
    )
}}
