{#- The CTEs from `changed_rows` to `assembled`: each record once, and whole. A record near 32,000 bytes is written
    as two. Only the SQL engine puts them together again; ABL dumps hold both. -#}
{%- macro _openedge_records(layout, split_order) -%}
{%- set in_order = 'partition by change_group, operation order by (position = 0) '
    ~ ('desc' if split_order == 'zero_first' else 'asc') ~ ', position asc, row_hash asc' -%}
-- A row delivered twice counts once. Its unique key is (_Change-Sequence, _Operation, _Continuation-Position).
{{ afterimage._distinct_rows(
    'changed_rows', by='change_group, operation, position, row_hash',
    first='time asc nulls last, transaction_id asc nulls last'
) }},

parts as (

    select
        *,
        count(*) over (partition by change_group, operation) as parts,
        min(position) over (partition by change_group, operation) as lowest_position,
        max(position) over (partition by change_group, operation) as highest_position,
        row_number() over ({{ in_order }}) as part,
        lead(struct(image, array_index, fragment, copies)) over ({{ in_order }}) as next_part

    from distinct_rows

),

joined_parts as (

    select
        *,
        -- The position says after which field the record broke, but not which part holds that field.
        kind in ('insert', 'update', 'delete', 'before_image')
        and has_seq
        and parts = 2
        and lowest_position <> highest_position as is_split,
        greatest(array_index, next_part.array_index) as split_index,
        greatest(fragment, next_part.fragment) = 1 as is_fragmented,
        -- An array that the record broke in may land as one text.
        {{ afterimage._openedge_array_elements(layout, 'image') | indent(8) }} as first_elements,
        {{ afterimage._openedge_array_elements(layout, 'next_part.image') | indent(8) }} as second_elements,
        -- The second part has either only its own elements, or all elements with the first part's left empty.
        if(
            array_size(first_elements) = array_size(second_elements)
            and split_index <= array_size(second_elements)
            and array_size(array_except(slice(second_elements, 1, split_index - 1), array('', '?'))) = 0,
            slice(second_elements, split_index, array_size(second_elements)),
            second_elements
        ) as rest_elements,
        array_join(
            if(
                is_fragmented,
                concat(
                    slice(first_elements, 1, split_index - 1),
                    array(concat(try_element_at(first_elements, split_index), get(rest_elements, 0))),
                    slice(rest_elements, 2, array_size(rest_elements))
                ),
                concat(slice(first_elements, 1, split_index - 1), rest_elements)
            ),
            ';'
        ) as whole_array

    from parts

),

assembled as (

    select
        change_group,
        has_seq,
        sequence,
        operation,
        kind,
        time,
        transaction_id,
        row_hash,
        if(is_split, {{ afterimage._openedge_joined(layout) | indent(8) }}, image) as image,
        copies + if(is_split, next_part.copies, 0) as row_count,
        case
            when is_split
                then {{ afterimage._openedge_split_reason(layout) | indent(16) }}
            when parts > 1 and highest_position > 0
                then concat('split record in ', parts, ' rows: two parts at the most, and with different positions')
            when position <> 0 and {{ afterimage._openedge_is_half(layout, split_order) | indent(12) }}
                then 'half of a split record: its other part is not there'
        end as split_reason

    from joined_parts
    where not (is_split and part = 2)

)
{%- endmacro -%}
