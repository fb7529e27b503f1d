{#- `named_struct('a', <prefix>a, 'b', <prefix>b)`: a struct whose field names are spelled as given. Columns in `chosen`
    are worked out by a template (see `_each`). -#}
{%- macro _struct(columns, prefix='', chosen=[], template=none) -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {%- set value = template if column in chosen else prefix ~ '{column}' -%}
        {%- do fields.extend(afterimage._each([column], '{name}, ' ~ value)) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}
