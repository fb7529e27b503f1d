{#- A value as text. Bytes become hex, since a plain cast would garble them; arrays, structs and maps become JSON. From
    seven places on, a cast would write small decimals with an exponent (`0E-7`). -#}
{%- macro _as_text(expression, type) -%}
    {%- set scale = type.split(',')[-1][:-1] | int if type and type.startswith('decimal') and ',' in type else 0 -%}
    {%- if type == 'binary' -%}
        {{ return('hex(' ~ expression ~ ')') }}
    {%- elif type and '<' in type -%}
        {{ return(afterimage._exact_json(expression)) }}
    {%- elif scale > 6 -%}
        {{ return('format_number(' ~ expression ~ ", '0." ~ '0' * scale ~ "')") }}
    {%- endif -%}
    {{ return('cast(' ~ expression ~ ' as string)') }}
{%- endmacro -%}
