{#- The row after a change: the logged values, or for a query-back the present row; for fields, only those named.
    For a delete the deleted row. -#}
{%- macro _netiq_row_image(layout) -%}
case
    when operation is null then null
    when operation = 'delete'
        then {{ afterimage._netiq_image(layout, 'old_values') | indent(8) }}
    when not is_query_back
        then {{ afterimage._netiq_image(layout, 'new_values') | indent(8) }}
    -- A rejected row has only the key, because a history must know which row it is.
    else named_struct(
        {%- for column in layout.columns %}
        {%- set name = afterimage._quote(column.name) %}
        {{ afterimage._literal(column.name) }},
        {%- if column.name in layout.unique_key %}
        key_values.{{ name }}
        {%- else %}
        if(
            deleted_by is null and misfit is null
            and (changed_columns is null or array_contains(changed_columns, {{ afterimage._literal(column.name) }})),
            {{ afterimage._netiq_query_back_value(layout, column) }},
            null
        )
        {%- endif %}{{ ',' if not loop.last }}
        {%- endfor %}
    )
end
{%- endmacro -%}


{#- The value that a query-back gives for a column: the present value. With precedence `logged` it is the old value
    in the column's next event, if there is one. -#}
{%- macro _netiq_query_back_value(layout, column) -%}
    {%- set present = 'present.' ~ afterimage._quote(column.name) -%}
    {%- if layout.precedence == 'driver' -%}
        {{ return(present) }}
    {%- endif -%}
    {%- set next = 'try_element_at(logged_next, ' ~ afterimage._literal(column.name) ~ ')' -%}
    {{ return(
        'case when ' ~ next ~ ' is null then ' ~ present ~ ' when ' ~ next ~ '.event_type in (2, 3) then '
        ~ afterimage._netiq_cast(next ~ '.old_value', column.type) ~ ' end'
    ) }}
{%- endmacro -%}
