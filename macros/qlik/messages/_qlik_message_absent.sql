{#- Columns whose NULL means "unknown": not in the message, or not in its columnMask. Without that mask an update's
    changeMask serves: unchanged columns are as they were. It says nothing about LOBs. -#}
{%- macro _qlik_message_absent(columns, keys, with_schemas) -%}
nullif(
    array_compact(array(
        {%- for column in columns if column.name not in keys %}
        {%- set name = afterimage._literal(column.name) %}
        if(
            data[{{ name }}] is null
            and (
                not map_contains_key(data, {{ name }})
                or coalesce(
                    not {{ afterimage._qlik_has_bit('present_ordinals', column) }},
                    operation_word = 'UPDATE'
                    and not {{ afterimage._qlik_has_bit('changed_ordinals', column) }}
                    and not {{ afterimage._qlik_is_lob(column, with_schemas) }},
                    false
                )
            ),
            {{ name }},
            null
        ){{ ',' if not loop.last }}
        {%- endfor %}
        {%- if columns | length == keys | length %}cast(null as string){% endif %}
    )),
    cast(array() as array<string>)
)
{%- endmacro -%}
