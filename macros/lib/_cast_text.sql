{#- A message's value, which is a text, as the column's type; NULL if it does not fit. -#}
{%- macro _cast_text(text, type) -%}
    {%- if type == 'string' -%}
        {{ return(text) }}
    {%- elif type == 'binary' -%}
        {{ return('unhex(' ~ text ~ ')') }}
    {%- elif type.startswith('array<') -%}
        {{ return('from_json(' ~ text ~ ", '" ~ type ~ "')") }}
    {%- elif type == 'date' or type.startswith('timestamp') -%}
        {{ return('if(' ~ afterimage._has_no_date(text) ~ ', null, try_cast(' ~ text ~ ' as ' ~ type ~ '))') }}
    {%- endif -%}
    {%- if type in ['tinyint', 'byte', 'smallint', 'short', 'int', 'integer', 'bigint', 'long'] -%}
        {#- A whole number may be written `5.0`, which not every cast accepts. -#}
        {%- set text = 'substring_index(' ~ text ~ ", '.', 1)" -%}
    {%- endif -%}
    {{ return('try_cast(' ~ text ~ ' as ' ~ type ~ ')') }}
{%- endmacro -%}
