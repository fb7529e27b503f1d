{#- The row after a change: the logged values, or for a query-back the present row; for fields, only those named.
    For a delete the deleted row. An event of an unknown type has its key, by which its row is found if that is erased. -#}
{%- macro _netiq_row_image(layout) -%}
case
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
    -- A trigger may log it under the new key. The old one would stay.
    when
        ({{ field }} is not null and not (new_values.{{ name }} <=> key_values.{{ name }}))
        or ({{ field }}.event_type in (2, 3) and old_values.{{ name }} <> key_values.{{ name }})
        then concat('the event changes the key: ', {{ afterimage._literal(column.name) }})
    {%- endif %}
end
{%- endmacro -%}


{#- The new columns that a kept change was read without, so that its value there is not known. A run that added them and
    did not come to its end may have written changes with them. -#}
{%- macro _netiq_not_read(new_shape) -%}
    {%- set names = [] -%}
    {%- for name in new_shape.added -%}
        {%- set last = new_shape.last_without.get(name) -%}
        {%- set name = afterimage._literal(name) -%}
        {%- set is_read = 'unix_micros(kept.ingested_at) > ' ~ last -%}
        {%- do names.append('if(' ~ is_read ~ ', null, ' ~ name ~ ')' if last else name) -%}
    {%- endfor -%}
    {{ return('array_compact(array(' ~ names | join(', ') ~ '))') }}
{%- endmacro -%}
