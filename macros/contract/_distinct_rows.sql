{#- The CTE `distinct_rows`: each row once, with the number of its `copies`. `by` is what the copies of a row have in
    common, `first` the order that chooses one of them. -#}
{%- macro _distinct_rows(rows, by, first) -%}
distinct_rows as (

    select *
    from (
        select
            *,
            row_number() over (partition by {{ by }} order by {{ first }}) as copy_number,
            count(*) over (partition by {{ by }}) as copies

        from {{ rows }}
    ) as counted
    where copy_number = 1

)
{%- endmacro -%}
