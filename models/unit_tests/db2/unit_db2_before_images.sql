{#- A CD table with before-image columns, and the commit times in a table of their own. -#}
{{
    afterimage.db2_change_data(
        ref('db2_deposits_cd'),
        unique_key=['ID'],
        columns=var('unit_columns', none),
        before_prefix=var('unit_before_prefix', 'X'),
        uow=ref('db2_uow')
    )
}}
