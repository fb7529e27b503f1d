{#- A value as text; bytes as hex, which a plain cast would garble, and what holds several values as JSON. -#}
{%- macro _as_text(expression, type) -%}
    {%- if type == 'binary' -%}
        {{ return('hex(' ~ expression ~ ')') }}
    {%- elif type and '<' in type -%}
        {{ return(afterimage._exact_json(expression)) }}
    {%- endif -%}
    {{ return('cast(' ~ expression ~ ' as string)') }}
{%- endmacro -%}
