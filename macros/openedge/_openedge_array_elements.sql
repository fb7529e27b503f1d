{#- The array field that a record broke in, where it was landed as text: the elements that one part holds
    (a `;` parts them unless a `~` of its own stands before it: OpenEdge SQL Reference, "PRO_ARR_ESCAPE"). -#}
{%- macro _openedge_array_elements(layout, part) -%}
    {%- set texts = [] -%}
    {%- for field in layout.fields if not field.is_array and field.columns -%}
        {%- if layout.types[field.columns[0]] == 'string' -%}
            {%- do texts.append(field) -%}
        {%- endif -%}
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
