{#- The CTEs from the landed rows to `classified_rows`, and `copies`: which copies there are, and what is before and
    after each. A copy's size is the number of its keys. -#}
{%- macro _copies_rows(side, plan, columns, types, unique_key) -%}
{%- set size = 'count(distinct ' ~ afterimage._quoted(unique_key, 'image.') | join(', ') ~ ')' -%}
source_rows as (

    select
        {{ side.place }} as place,
        cast({{ side.column }} as string) as landed_date,
        {{ afterimage._struct(columns) }} as image

    from {{ side.rows }}
    where {{ plan.condition if plan else 'true' }}
    {%- if plan and plan.gone %}
    union all
    select
        place,
        place as landed_date,
        image

    from {{ afterimage._copies_state(plan.gone, unique_key) | indent(4) }} as gone_copies
    {%- endif %}

),

copies as (

    select
        *,
        lead(is_compared) over (order by place) as next_is_compared,
        lead(is_small) over (order by place) as next_is_small

    from (
        select
            place,
            lag(place) over (order by place) as previous_place,
            lead(place) over (order by place) as next_place,
            {{ "place in ('" ~ plan.compared | join("', '") ~ "')" if plan else 'true' }} as is_compared,
            coalesce({{ size }} * 2 < lag({{ size }}) over (order by place), false) as is_small

        from (
            select place, image from source_rows
            {%- for place in plan.read if plan %}
            union all select '{{ place }}', null
            {%- endfor %}
        ) as places
        where place is not null
        group by place
    ) as sizes

),

classified_rows as (

    select
        *,
        {{ afterimage._struct(unique_key, 'image.') }} as own_key,
        {{ afterimage._hash_of_values(afterimage._hashable_columns(columns, types, 'image.')) | indent(8) }} as row_id,
        case
            when place is null then concat('the copy has no date: ', coalesce(landed_date, 'NULL'))
            when {{ afterimage._has_null_key(unique_key) }} then {{ afterimage._null_key_reason(unique_key) }}
        end as row_reason

    from source_rows
    -- All windows behind this one are by key, or by key and more, so one exchange serves them all.
    distribute by own_key

)
{%- endmacro -%}


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
