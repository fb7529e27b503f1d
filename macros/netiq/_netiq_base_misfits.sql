{#- The columns of a base row that do not fit their declared types: structs of the column and the reason. -#}
{%- macro _netiq_base_misfits(layout) -%}
array_compact(cast(array(
    {%- for column in layout.columns if afterimage._netiq_is_other_type(layout, column) %}
    {%- set text = afterimage._netiq_base_text(layout, column) %}
    {%- set reason = 'value does not cast: present value of ' ~ column.name ~ ' is no ' ~ column.type ~ ': "' %}
    if(
        {{ afterimage._quote(column.name) }} is not null and {{ afterimage._netiq_base_value(layout, column) }} is null,
        struct(
            {{ afterimage._literal(column.name) }} as column_name,
            concat({{ afterimage._literal(reason) }}, {{ text }}, '"') as reason
        ),
        null
    ){{ ',' if not loop.last }}
    {%- endfor %}
) as array<struct<column_name: string, reason: string>>))
{%- endmacro -%}
