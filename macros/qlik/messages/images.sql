{#- The CTE `images`: the row before and after each change, and the columns that a message lacks or has in excess. -#}
{%- macro _qlik_message_images(layout) -%}
{%- set flagged = [] -%}
{%- for column in layout.columns -%}
    {%- do flagged.append([afterimage._qlik_has_bit('changed_ordinals', column), afterimage._literal(column.name)]) -%}
{%- endfor -%}
images as (

    select
        masked.*,
        {{ afterimage._texts_of_columns(layout.columns, 'row_values') | indent(8) }} as row_texts,
        {{ afterimage._texts_of_columns(layout.columns, 'before_values') | indent(8) }} as before_texts,
        if(row_values is null, null, {{ afterimage._image_of_texts(layout.columns, 'row_texts') | indent(8) }}) as image,
        -- A before-image may leave out some columns, but it shows the same row.
        if(
            before_values is null,
            null,
            {{ afterimage._image_of_texts(layout.columns, 'before_texts', 'row_texts', layout.unique_key) | indent(12) }}
        ) as before_image,
        concat(
            {{ afterimage._misfits(layout.columns, 'row_texts', 'image', '') | indent(12) }},
            {{ afterimage._misfits(layout.columns, 'before_texts', 'before_image', ' before') | indent(12) }}
        ) as misfits,
        {{ afterimage._qlik_message_absent(layout.columns, layout.unique_key, layout.schema_rows is not none) | indent(8) }} as absent_columns,
        if(
            changed_ordinals is null,
            null,
            {{ afterimage._qlik_message_changed(layout.columns, layout.schema_rows is not none) | indent(12) }}
        ) as changed_columns,
        if(operation_word = 'DELETE', {{ afterimage._texts_where(flagged) }}, null) as flagged_by_delete,
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


{#- The columns that changed, in their order. LOBs have no bit in changeMask, so their values are compared if both
    are there. -#}
{%- macro _qlik_message_changed(columns, with_schemas) -%}
    {%- set changed = [] -%}
    {%- for column in columns -%}
        {%- set name = afterimage._literal(column.name) -%}
        {%- set condition -%}
            {{ afterimage._qlik_has_bit('changed_ordinals', column) }}
            {%- if column.lob or with_schemas %}
            or (
                {{ afterimage._qlik_is_lob(column, with_schemas) }}
                and if(
                    operation_word = 'UPDATE',
                    map_contains_key(data, {{ name }}) and map_contains_key(before_data, {{ name }})
                    and not data[{{ name }}] <=> before_data[{{ name }}],
                    data[{{ name }}] is not null
                )
            )
            {%- endif %}
        {%- endset -%}
        {%- do changed.append([condition, name]) -%}
    {%- endfor -%}
    {{ return(afterimage._texts_where(changed)) }}
{%- endmacro -%}


{#- Columns whose NULL means "unknown": not in the message, or not in its columnMask. Without that mask an update's
    changeMask serves: unchanged columns are as they were. It says nothing about LOBs. -#}
{%- macro _qlik_message_absent(columns, keys, with_schemas) -%}
    {%- set absent = [] -%}
    {%- for column in columns if column.name not in keys -%}
        {%- set name = afterimage._literal(column.name) -%}
        {%- set condition -%}
            data[{{ name }}] is null
            and (
                not map_contains_key(data, {{ name }})
                or coalesce(
                    not {{ afterimage._qlik_has_bit('present_ordinals', column) }},
                    operation_word = 'UPDATE'
                    and not {{ afterimage._qlik_has_bit('changed_ordinals', column) }}
                    and not {{ afterimage._qlik_is_lob(column, with_schemas) }},
                    false
                )
            )
        {%- endset -%}
        {%- do absent.append([condition, name]) -%}
    {%- endfor -%}
    {{ return('nullif(' ~ afterimage._texts_where(absent) ~ ', cast(array() as array<string>))') }}
{%- endmacro -%}


{#- Whether a mask has the bit of a column, by the ordinals of the message's own schema. NULL without a mask, false
    if the schema has no such column. -#}
{%- macro _qlik_has_bit(mask_ordinals, column) -%}
    {{ return(
        'coalesce(array_contains(' ~ mask_ordinals ~ ', ordinals[' ~ afterimage._literal(column.name)
        ~ ']), if(' ~ mask_ordinals ~ ' is null, null, false))'
    ) }}
{%- endmacro -%}


{%- macro _qlik_is_lob(column, with_schemas) -%}
    {%- set declared = 'true' if column.lob else 'false' -%}
    {%- if not with_schemas -%}
        {{ return(declared) }}
    {%- endif -%}
    {{ return('coalesce(array_contains(lob_columns, ' ~ afterimage._literal(column.name) ~ '), ' ~ declared ~ ')') }}
{%- endmacro -%}
