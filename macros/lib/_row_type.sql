{#- The type of a row with these columns. `types` are by name. -#}
{%- macro _row_type(columns, types) -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- do fields.append(afterimage._quote(column) ~ ': ' ~ types[column]) -%}
    {%- endfor -%}
    {{ return('struct<' ~ fields | join(', ') ~ '>') }}
{%- endmacro -%}
