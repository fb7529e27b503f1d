{#- `array('a', 'b')` of literals, typed even if it is empty. -#}
{%- macro _string_array(values) -%}
    {%- if not values -%}
        {{ return("cast(array() as array<string>)") }}
    {%- endif -%}
    {%- set literals = [] -%}
    {%- for value in values -%}
        {%- do literals.append(afterimage._literal(value)) -%}
    {%- endfor -%}
    {{ return('array(' ~ literals | join(', ') ~ ')') }}
{%- endmacro -%}
