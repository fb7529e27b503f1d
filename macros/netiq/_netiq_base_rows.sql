{#- The CTE `base_rows`: the table as it is now. -#}
{%- macro _netiq_base_rows(layout) -%}
-- A key has one row. If it has several, the greatest is taken, so that no change is doubled.
base_rows as (

    select
        images.base_id,
        max(struct(images.image, images.misfits)) as found,
        count(*) as rows_of_key

    from (
        select
            typed_rows.*,
            {{ afterimage._netiq_key_text(layout.key_columns, 'image.') }} as base_id

        from (
            select
                named_struct(
                    {%- for column in layout.columns %}
                    {{ afterimage._literal(column.name) }},
                    {{ afterimage._netiq_base_value(layout, column) }}{{ ',' if not loop.last }}
                    {%- endfor %}
                ) as image,
                {{ afterimage._netiq_base_misfits(layout) | indent(16) }} as misfits

            from {{ layout.base }}
        ) as typed_rows
    ) as images
    group by images.base_id

)
{%- endmacro -%}
