{#- The row before an update, as far as before-image columns show it. A key column without one counts as unchanged,
    any other column as unknown. `types` are by names in lower case; `image_of` is the before-image of each column. -#}
{%- macro _before_image(columns, unique_key, types, image_of) -%}
    {%- if not image_of -%}
        {{ return('if(true, null, ' ~ afterimage._struct(columns) ~ ')') }}
    {%- endif -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- set value = afterimage._quote(image_of.get(column, column)) -%}
        {%- if column not in image_of and column not in unique_key -%}
            {%- set value = 'cast(null as ' ~ types[column | lower] ~ ')' -%}
        {%- endif -%}
        {%- do fields.append(afterimage._literal(column) ~ ', ' ~ value) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}
