{#- The CTE `images`: the row before and after each change, and the columns that a message lacks or has in excess. -#}
{%- macro _qlik_message_images(layout) -%}
images as (

    select
        masked.*,
        concat(
            {{ afterimage._misfits(layout.columns, 'row_values', '') | indent(12) }},
            {{ afterimage._misfits(layout.columns, 'before_values', ' before') | indent(12) }}
        ) as misfits,
        if(row_values is null, null, {{ afterimage._image_of_texts(layout.columns, 'row_values') | indent(8) }}) as image,
        -- A before-image may leave out some columns, but it shows the same row.
        if(
            before_values is null,
            null,
            {{ afterimage._image_of_texts(layout.columns, 'before_values', 'row_values', layout.unique_key) | indent(12) }}
        ) as before_image,
        {{ afterimage._qlik_message_absent(layout.columns, layout.unique_key, layout.schema_rows is not none) | indent(8) }} as absent_columns,
        if(
            changed_ordinals is null,
            null,
            {{ afterimage._qlik_message_changed(layout.columns, layout.schema_rows is not none) | indent(12) }}
        ) as changed_columns,
        if(
            operation_word = 'DELETE',
            array_compact(array(
                {%- for column in layout.columns %}
                if({{ afterimage._qlik_has_bit('changed_ordinals', column) }}, {{ afterimage._literal(column.name) }}, null)
                {{- ',' if not loop.last }}
                {%- endfor %}
            )),
            null
        ) as flagged_by_delete,
        array_except(changed_ordinals, all_ordinals) as unknown_changed,
        array_except(present_ordinals, all_ordinals) as unknown_present,
        array_except(
            array_union(
                coalesce(map_keys(data), cast(array() as array<string>)),
                coalesce(map_keys(before_data), cast(array() as array<string>))
            ),
            {{ afterimage._string_array(layout.names) }}
        ) as undeclared

    from masked

)
{%- endmacro -%}
