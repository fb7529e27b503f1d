{#- Of each distinct `change_mask` of a query the columns that it flags, and what is wrong with it. `ordinals` are the
    columns in the order of the bits. A change table holds few distinct masks: each is decoded once, then looked up. -#}
{%- macro _decoded_masks(masks, ordinals, columns, encoding) -%}
select
    change_mask,
    array_intersect(
        transform(positions, k -> get(names, k - 1)), {{ afterimage._string_array(columns) }}
    ) as flagged_columns,
    case
        when positions is null then concat('the mask cannot be decoded: ', change_mask)
        when array_max(positions) > array_size(names)
            then concat('the mask has bits past the last column: ', change_mask)
    end as mask_warning

from (
    select
        change_mask,
        decode_change_mask(change_mask, 0, '{{ encoding }}') as positions,
        {{ afterimage._string_array(ordinals) }} as names

    from ({{ masks }}) as distinct_masks
) as decoded
{%- endmacro -%}
