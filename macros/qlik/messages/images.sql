{#- The CTE `images`: the row before and after each change, and the columns that a message lacks or has in excess. -#}
{%- macro _qlik_message_images(layout) -%}
{%- set is_usual = 'is_usual' if layout.usual else 'false' -%}
{%- set flagged = [] -%}
{%- for column in layout.columns -%}
    {%- set has_bit = afterimage._qlik_has_bit('changed', layout.columns, column) -%}
    {%- do flagged.append([has_bit, afterimage._literal(column.name)]) -%}
{%- endfor -%}
images as (

    select
        masked.*,
        {{ afterimage._texts_of_columns(layout.columns, 'row_values') | indent(8) }} as row_texts,
        {{ afterimage._texts_of_columns(layout.columns, 'before_values') | indent(8) }} as before_texts,
        case
            {%- if layout.usual %}
            when is_usual then coalesce(usual_data, usual_before)
            {%- endif %}
            when row_values is not null then {{ afterimage._image_of_texts(layout.columns, 'row_texts') | indent(12) }}
        end as image,
        -- A before-image may leave out some columns, but it shows the same row.
        case
            {%- if layout.usual %}
            when is_usual then if(operation_word = 'UPDATE', usual_before, null)
            {%- endif %}
            when before_values is not null
                then {{ afterimage._image_of_texts(layout.columns, 'before_texts', 'row_texts', layout.unique_key) | indent(16) }}
        end as before_image,
        if(
            {{ is_usual }},
            cast(array() as array<string>),
            concat(
                {{ afterimage._misfits(layout.columns, 'row_texts', 'image', '') | indent(16) }},
                {{ afterimage._misfits(layout.columns, 'before_texts', 'before_image', ' before') | indent(16) }}
            )
        ) as misfits,
        {{ afterimage._qlik_message_absent(layout.columns, layout.unique_key, layout.schema_rows is not none, is_usual) | indent(8) }} as absent_columns,
        if(
            changed_digits is null,
            null,
            {{ afterimage._qlik_message_changed(layout.columns, layout.schema_rows is not none, is_usual) | indent(12) }}
        ) as changed_columns,
        if(operation_word = 'DELETE', {{ afterimage._texts_where(flagged) }}, null) as flagged_by_delete,
        -- Their lambdas keep all of this out of the code that Spark writes: Java could not compile that much.
        {{ afterimage._qlik_unknown_bits('changed_digits', layout.columns) | indent(8) }} as unknown_changed,
        {{ afterimage._qlik_unknown_bits('present_digits', layout.columns) | indent(8) }} as unknown_present,
        if(
            {{ is_usual }},
            cast(array() as array<string>),
            array_except(
                array_union(
                    coalesce(map_keys(data), cast(array() as array<string>)),
                    coalesce(map_keys(before_data), cast(array() as array<string>))
                ),
                {{ afterimage._string_array(layout.names) }}
            )
        ) as undeclared

    from masked

)
{%- endmacro -%}


{#- The columns that changed, in their order. LOBs have no bit in changeMask, so their values are compared if both
    are there. -#}
{%- macro _qlik_message_changed(columns, with_schemas, is_usual) -%}
    {%- set changed = [] -%}
    {%- for column in columns -%}
        {%- set name, field = afterimage._literal(column.name), 'image.' ~ afterimage._quote(column.name) -%}
        {%- set condition -%}
            {{ afterimage._qlik_has_bit('changed', columns, column) }}
            {%- if column.lob or with_schemas %}
            or (
                {{ afterimage._qlik_is_lob(column, with_schemas) }}
                and case
                    when {{ is_usual }} and operation_word = 'UPDATE'
                        then before_image is not null and not {{ field }} <=> before_{{ field }}
                    when {{ is_usual }} then {{ field }} is not null
                    when operation_word = 'UPDATE'
                        then
                            map_contains_key(data, {{ name }}) and map_contains_key(before_data, {{ name }})
                            and not data[{{ name }}] <=> before_data[{{ name }}]
                    else data[{{ name }}] is not null
                end
            )
            {%- endif %}
        {%- endset -%}
        {%- do changed.append([condition, name]) -%}
    {%- endfor -%}
    {{ return(afterimage._texts_where(changed)) }}
{%- endmacro -%}


{#- Columns whose NULL means "unknown": not in the message, or not in its columnMask. Without that mask an update's
    changeMask serves: unchanged columns are as they were. It says nothing about LOBs. -#}
{%- macro _qlik_message_absent(columns, keys, with_schemas, is_usual) -%}
    {%- set absent = [] -%}
    {%- for column in columns if column.name not in keys -%}
        {%- set name = afterimage._literal(column.name) -%}
        {%- set condition -%}
            if({{ is_usual }}, image.{{ afterimage._quote(column.name) }} is null, data[{{ name }}] is null)
            and (
                (not {{ is_usual }} and not map_contains_key(data, {{ name }}))
                or coalesce(
                    not {{ afterimage._qlik_has_bit('present', columns, column) }},
                    operation_word = 'UPDATE'
                    and not {{ afterimage._qlik_has_bit('changed', columns, column) }}
                    and not {{ afterimage._qlik_is_lob(column, with_schemas) }},
                    false
                )
            )
        {%- endset -%}
        {%- do absent.append([condition, name]) -%}
    {%- endfor -%}
    {#- Most columnMasks have every column. -#}
    {%- set full = [] -%}
    {%- for first in range(0, columns | length, 60) -%}
        {%- do full.append((2 ** ([columns | length - first, 60] | min) - 1) ~ 'L') -%}
    {%- endfor -%}
    {{ return(
        'if(' ~ is_usual ~ ' and is_as_declared and present_bits = array(' ~ full | join(', ') ~ '), null, nullif('
        ~ afterimage._texts_where(absent) ~ ', cast(array() as array<string>)))'
    ) }}
{%- endmacro -%}


{#- Whether a mask, `changed` or `present`, has the bit of a column, by the ordinals of the message's own schema. NULL
    without a mask, false if the schema has no such column. -#}
{%- macro _qlik_has_bit(mask, columns, column) -%}
    {%- set position = columns.index(column) -%}
    {%- set has_bit = afterimage._mask_has_bit(mask ~ '_bits', position) -%}
    {%- set ordinal = 'ordinals[' ~ afterimage._literal(column.name) ~ ']' -%}
    {%- set digit = 'substr(' ~ mask ~ '_digits, -((' ~ ordinal ~ ' + 3) div 4), 1)' -%}
    {{ return(
        'if(is_as_declared, ' ~ has_bit ~ ', if(' ~ mask ~ '_digits is null, null, '
        ~ afterimage._digit_has_bit(digit, ordinal) ~ '))'
    ) }}
{%- endmacro -%}


{#- The ordinals of a mask's bits that the message's schema does not have. Few masks have one, so the bits are listed
    only where the digits show more of them than columns are declared. -#}
{%- macro _qlik_unknown_bits(digits, columns) -%}
if(
    is_as_declared and {{ afterimage._mask_has_no_more(digits, columns | length) }},
    cast(array() as array<int>),
    array_except({{ afterimage._mask_ordinals(digits) }}, all_ordinals)
)
{%- endmacro -%}


{%- macro _qlik_is_lob(column, with_schemas) -%}
    {%- set declared = 'true' if column.lob else 'false' -%}
    {%- if not with_schemas -%}
        {{ return(declared) }}
    {%- endif -%}
    {{ return('coalesce(array_contains(lob_columns, ' ~ afterimage._literal(column.name) ~ '), ' ~ declared ~ ')') }}
{%- endmacro -%}
