{#- For each distinct `change_mask` of a query: the columns that it flags (NULL if it cannot be decoded), and the bits
    that match no column. `ordinals` are the columns in the order of the bits, after the bits of the `header_columns`. A
    change table holds few distinct masks, so each is decoded once and then looked up. -#}
{%- macro _decoded_masks(masks, ordinals, columns, encoding, header_columns=0, is_text=true) -%}
select
    change_mask,
    array_intersect(
        transform(positions, k -> get(names, k - 1)), {{ afterimage._string_array(columns) }}
    ) as flagged_columns,
    filter(positions, k -> k > array_size(names)) as unknown_ordinals

from (
    select
        change_mask,
        decode_change_mask(
            {{ afterimage._valid_text('change_mask') if is_text else 'change_mask' }},
            {{ header_columns }}{{ ", '" ~ encoding ~ "'" if encoding }}
        ) as positions,
        {{ afterimage._string_array(ordinals) }} as names

    from ({{ masks }}) as distinct_masks
) as decoded
{%- endmacro -%}
