{#- The columns of `after` without a value: those that no event names, and for a query-back those whose next event
    does not give the old value. -#}
{%- macro _netiq_absent_columns(layout) -%}
nullif(array_compact(cast(array(
    {%- for column in layout.data_columns %}
    {%- set name = afterimage._literal(column.name) %}
    {%- set next = 'try_element_at(logged_next, ' ~ name ~ ')' %}
    if(
        not array_contains(changed_columns, {{ name }})
        {%- if layout.precedence == 'logged' %}
        or (
            is_query_back
            and (
                {{ next }}.event_type = 1
                or ({{ next }}.event_type = 3 and {{ next }}.old_value is null)
                or (
                    {{ next }}.old_value is not null
                    and {{ afterimage._netiq_cast(next ~ '.old_value', column.type) }} is null
                )
            )
        )
        {%- endif %},
        {{ name }},
        null
    ){{ ',' if not loop.last }}
    {%- endfor %}
) as array<string>)), cast(array() as array<string>))
{%- endmacro -%}
