{#- A value as text. Bytes become hex, since a plain cast would garble them; arrays, structs and maps become JSON. -#}
{%- macro _as_text(expression, type) -%}
    {%- if type == 'binary' -%}
        {{ return('hex(' ~ expression ~ ')') }}
    {%- elif type and '<' in type -%}
        {{ return(afterimage._exact_json(expression)) }}
    {%- endif -%}
    {{ return('cast(' ~ expression ~ ' as string)') }}
{%- endmacro -%}
