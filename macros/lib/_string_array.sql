{#- `array('a', 'b')` of literals, typed even if it is empty. -#}
{%- macro _string_array(values) -%}
    {{ return('array(' ~ afterimage._each(values, '{name}') | join(', ') ~ ')' if values
        else 'cast(array() as array<string>)') }}
{%- endmacro -%}
