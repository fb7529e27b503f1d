{#- Rows of a change table in, versions out. scd2 cannot look into a text, hence `columns`. -#}
{{
    scd2(
        '(' ~ qlik_change_table(ref('qlik_customers__ct'), unique_key=['id']) ~ ')',
        unique_key=['id'],
        columns=['id', 'name', 'email', 'city', 'credit_limit', 'notes', 'scenario'],
        track_columns=var('unit_track_columns', none),
        ignore_columns=var('unit_ignore_columns', none),
        overwrite_columns=var('unit_overwrite_columns', none),
        grain=var('unit_grain', 'change'),
        deletes=var('unit_deletes', 'close'),
        meta_column_names=var('unit_meta_column_names', none),
        load_valid_from=var('unit_load_valid_from', none),
        follow_keys=var('unit_follow_keys', false)
    )
}}
