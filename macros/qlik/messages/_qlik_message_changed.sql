{#- The columns that changed, in their order. LOBs have no bit in changeMask, so their values are compared if both
    are there. -#}
{%- macro _qlik_message_changed(columns, with_schemas) -%}
array_compact(array(
    {%- for column in columns %}
    {%- set name = afterimage._literal(column.name) %}
    if(
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
        {%- endif %},
        {{ name }},
        null
    ){{ ',' if not loop.last }}
    {%- endfor %}
))
{%- endmacro -%}
