{#- The CTE `distinct_rows`: each row once, with the number of its `copies`. `by` is what the copies of a row have in
    common, `first` the order that chooses one of them. `last_time` is the latest `time` of the copies. -#}
{%- macro _distinct_rows(rows, by, first, time=none) -%}
distinct_rows as (

    select *
    from (
        select
            *,
            row_number() over (partition by {{ by }} order by {{ first }}) as copy_number,
            count(*) over (partition by {{ by }}) as copies
            {%- if time %},
            max({{ time }}) over (partition by {{ by }}) as last_time
            {%- endif %}

        from {{ rows }}
    ) as counted
    where copy_number = 1

)
{%- endmacro -%}
