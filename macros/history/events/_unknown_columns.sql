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
            {{ afterimage._each(sparse, 'when {name} then `before`.{column} is null') | join('\n            ') }}
            else false
        end
    ),
    {%- else %}
    array(
        {{ afterimage._each(
            sparse, 'if(array_contains(absent_columns, {name}) and `before`.{column} is null, {name}, null)'
        ) | join(',\n        ') }}
    ),
    {%- endif %}
    null
)
{%- endif -%}
{%- endmacro -%}
