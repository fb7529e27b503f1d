{#- The absent columns of a change that its before-image does not fill: NULL there may also mean "not captured". -#}
{%- macro _unknown_columns(sparse, are_many) -%}
{%- if not sparse -%}
cast(null as array<string>)
{%- else -%}
if(
    size(absent_columns) > 0,
    {%- if are_many %}
    -- Spark leaves an expression with a lambda out of the generated code. With one condition for each of many columns,
    -- Java could not compile that code.
    filter(
        absent_columns,
        name -> case name
            {%- for column in sparse %}
            when {{ afterimage._literal(column) }} then `before`.{{ afterimage._quote(column) }} is null
            {%- endfor %}
            else false
        end
    ),
    {%- else %}
    array(
        {%- for column in sparse %}
        {%- set literal = afterimage._literal(column) %}
        if(
            array_contains(absent_columns, {{ literal }}) and `before`.{{ afterimage._quote(column) }} is null,
            {{ literal }},
            null
        ){{ ',' if not loop.last }}
        {%- endfor %}
    ),
    {%- endif %}
    null
)
{%- endif -%}
{%- endmacro -%}
