{#- Whether a lone row with a position is half a record, and not one that the SQL engine has put together: its
    columns on one side of the position are all NULL. A second part has no values before the position. A record that
    breaks in its last column with a value has none after it either. -#}
{%- macro _openedge_is_half(layout, split_order) -%}
    {%- set before = [] -%}
    {%- set after = [] -%}
    {%- for field in layout.fields -%}
        {%- for column in field.columns -%}
            {%- set value = 'image.' ~ afterimage._quote(column) -%}
            {%- do before.append('(position > ' ~ field.number ~ ' and ' ~ value ~ ' is not null)') -%}
            {%- do after.append('(position < ' ~ field.number ~ ' and ' ~ value ~ ' is not null)') -%}
        {%- endfor -%}
    {%- endfor -%}
not (
    ({{ before | join(' or ') }})
    {%- if split_order == 'zero_last' %}
    and ({{ after | join(' or ') }})
    {%- endif %}
)
{%- endmacro -%}
