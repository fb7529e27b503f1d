{#- `named_struct('a', <prefix>a, 'b', <prefix>b)`: a struct whose field names are spelled as given. -#}
{%- macro _struct(columns, prefix='') -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- do fields.append(afterimage._literal(column) ~ ', ' ~ prefix ~ afterimage._quote(column)) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}
