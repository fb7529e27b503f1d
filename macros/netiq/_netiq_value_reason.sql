{#- Why a field's values do not fit, or NULL. Type 3 ignores the old value. -#}
{%- macro _netiq_value_reason(column, is_key) -%}
{%- set name = afterimage._quote(column.name) -%}
{%- set field = 'try_element_at(field_of, ' ~ afterimage._literal(column.name) ~ ')' -%}
{%- set misfit = '_value of ' ~ column.name ~ ' is no ' ~ column.type ~ ': "' -%}
case
    {%- if column.type != 'string' %}
    when {{ field }}.new_value is not null and new_values.{{ name }} is null
        then concat(
            {{ afterimage._literal('value does not cast: new' ~ misfit) }},
            {{ field }}.new_value,
            '"'
        )
    when {{ field }}.event_type = 2 and {{ field }}.old_value is not null and old_values.{{ name }} is null
        then concat(
            {{ afterimage._literal('value does not cast: old' ~ misfit) }},
            {{ field }}.old_value,
            '"'
        )
    {%- endif %}
    {%- if is_key %}
    when {{ field }} is not null and not (new_values.{{ name }} <=> key_values.{{ name }})
        then concat('the event changes the key: ', {{ afterimage._literal(column.name) }})
    {%- endif %}
end
{%- endmacro -%}
