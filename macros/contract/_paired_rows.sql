{#- The CTE `paired_rows`, for a source that writes an update as two rows: the row before it (`is_before`) and the row
    after it. The second gets the first as `found`, a struct of the `fields`; the first is left out. Two rows of a group
    are a pair if they have the same `own_key` and `form`. Rows with different keys are a pair only if the group has no
    other row. -#}
{%- macro _paired_rows(group, form, fields) -%}
neighbours as (

    select
        *,
        if(is_before, null, lag(if(is_before, struct({{ fields | join(', ') }}), null)) over in_pair) as found,
        is_before and coalesce(lead(not is_before) over in_pair, false) as is_found

    from (select *, count(*) over (partition by {{ group }}) as rows_in_group from distinct_rows) as counted
    window in_pair as (
        partition by {{ group }}, {{ form }}, if(rows_in_group = 2, null, own_key)
        order by is_before desc, row_id
    )

),

paired_rows as (

    select *
    from neighbours
    where not is_found

)
{%- endmacro -%}
