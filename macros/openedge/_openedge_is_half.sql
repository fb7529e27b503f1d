{#- Whether a lone row with a position is half a record, and not one that the SQL engine has put together: its
    columns on one side of the position are all NULL. A second part has no values before the position. A record that
    breaks in its last column with a value has none after it either. -#}
{%- macro _openedge_is_half(layout, split_order) -%}
    {%- set before, after = [], [] -%}
    {%- for field in layout.fields -%}
        {%- set is_there = field.number ~ ' and image.{column} is not null)' -%}
        {%- do before.extend(afterimage._each(field.columns, '(position > ' ~ is_there)) -%}
        {%- do after.extend(afterimage._each(field.columns, '(position < ' ~ is_there)) -%}
    {%- endfor -%}
not (
    ({{ before | join(' or ') }})
    {%- if split_order == 'zero_last' %}
    and ({{ after | join(' or ') }})
    {%- endif %}
)
{%- endmacro -%}
