{#- The CTEs from `distinct_rows` to `compared_rows`: each copy's row of a key, beside the row in the copy before. -#}
{%- macro _copies_compared() -%}
placed_rows as (

    select /*+ broadcast(copies) */
        distinct_rows.*,
        previous_place,
        next_place,
        coalesce(is_compared, true) as is_compared,
        next_is_compared,
        next_is_small,
        -- A key's different rows in one copy: nobody knows which is right.
        count(*) over (partition by own_key, distinct_rows.place) as row_count,
        row_number() over (partition by own_key, distinct_rows.place order by row_id) as row_no

    from distinct_rows
    left outer join copies on distinct_rows.place = copies.place

),

compared_rows as (

    select
        *,
        case
            when row_count > 1 or not is_compared then null
            when previous_place is null then 'load'
            when not last_place <=> previous_place then 'insert'
            when last_row_count > 1 or last_row_id <> row_id then 'update'
            else 'unchanged'
        end as outcome,
        next_is_compared and not following_place <=> next_place as is_last

    from (
        select
            *,
            lag(place) over (w) as last_place,
            lag(row_id) over (w) as last_row_id,
            lag(image) over (w) as last_image,
            lag(row_count) over (w) as last_row_count,
            lead(place) over (w) as following_place

        from placed_rows
        where row_no = 1 and row_reason is null
        window w as (partition by own_key order by place)
    ) as neighbours

)
{%- endmacro -%}
