{#- The elements of the split array field that one part holds, if the array landed as text. A `;` separates elements
    unless a `~` of its own precedes it (OpenEdge SQL Reference, "PRO_ARR_ESCAPE"). -#}
{%- macro _openedge_array_elements(layout, part) -%}
    {%- set texts = [] -%}
    {%- for field in layout.fields
        if not field.is_array and field.columns and layout.types[field.columns[0]] == 'string' -%}
        {%- do texts.append(field) -%}
    {%- endfor -%}
    {%- if not texts -%}
        {{ return('cast(null as array<string>)') }}
    {%- endif -%}
if(
    is_split and split_index > 0,
    split(
        case highest_position
            {%- for field in texts %}
            when {{ field.number }} then {{ part }}.{{ afterimage._quote(field.columns[0]) }}
            {%- endfor %}
        end,
        '(?<=(?:^|[^~])(?:~~){0,99});'
    ),
    null
)
{%- endmacro -%}
