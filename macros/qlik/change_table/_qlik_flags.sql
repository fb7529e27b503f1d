{#- The CTEs `masks` and `flags`: for each distinct change mask the columns it flags, and the bits that match no
    column. -#}
{%- macro _qlik_flags(layout, mask_encoding) -%}
-- A change table holds few distinct masks, so each is decoded once and then looked up.
masks as (

    select
        change_mask,
        decode_change_mask(
            change_mask, {{ layout.header_columns }}
            {%- if mask_encoding is not none %}, '{{ mask_encoding }}'{% endif %}
        ) as ordinals

    from (select distinct change_mask from source_rows where change_mask is not null) as distinct_masks

),

flags as (

    select
        change_mask,
        {% if layout.columns | length < layout.ordinals | length -%}
        array_intersect(
            transform(
                filter(ordinals, k -> k <= {{ layout.ordinals | length }}),
                k -> element_at({{ afterimage._string_array(layout.ordinals) }}, k)
            ),
            {{ afterimage._string_array(layout.columns) }}
        )
        {%- else -%}
        transform(
            filter(ordinals, k -> k <= {{ layout.columns | length }}),
            k -> element_at({{ afterimage._string_array(layout.columns) }}, k)
        )
        {%- endif %} as flagged_columns,
        filter(ordinals, k -> k > {{ layout.ordinals | length }}) as unknown_ordinals

    from masks

)
{%- endmacro -%}
