{#- The type of a row. -#}
{%- macro _netiq_row_type(layout) -%}
    {%- set fields = [] -%}
    {%- for column in layout.columns -%}
        {%- do fields.append(afterimage._quote(column.name) ~ ': ' ~ column.type) -%}
    {%- endfor -%}
    {{ return('struct<' ~ fields | join(', ') ~ '>') }}
{%- endmacro -%}
