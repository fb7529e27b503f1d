{#- The row after a change: from the log, or, of a query-back, the present row; of fields, what they name. Of a delete
    the row that was. -#}
{%- macro _netiq_row_image(layout) -%}
case
    when operation is null then null
    when operation = 'delete'
        then {{ afterimage._netiq_image(layout, 'old_values') | indent(8) }}
    when not is_query_back
        then {{ afterimage._netiq_image(layout, 'new_values') | indent(8) }}
    -- Of a row that is rejected the key alone: a history has to know whose it is.
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
            {{ afterimage._netiq_value_read(layout, column) }},
            null
        )
        {%- endif %}{{ ',' if not loop.last }}
        {%- endfor %}
    )
end
{%- endmacro -%}


{#- What a query-back gives for a column: the present value, or, where logged values stand, what the next event of the
    column says that it was. -#}
{%- macro _netiq_value_read(layout, column) -%}
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
