{#- A column of the base as its declared type. A value that does not fit is NULL, as with logged values. -#}
{%- macro _netiq_base_value(layout, column) -%}
    {%- if not afterimage._netiq_is_other_type(layout, column) -%}
        {{ return('cast(' ~ afterimage._quote(column.name) ~ ' as ' ~ column.type ~ ')') }}
    {%- endif -%}
    {%- set text = afterimage._netiq_base_text(layout, column) -%}
    {%- if column.type in ['tinyint', 'smallint', 'int', 'bigint'] -%}
        {#- A whole number from a decimal column has zeros after the point, or an exponent. -#}
        {%- set text = 'cast(' ~ afterimage._netiq_cast(text, 'decimal(20,0)') ~ ' as string)' -%}
    {%- endif -%}
    {{ return(afterimage._netiq_cast(text, column.type)) }}
{%- endmacro -%}
