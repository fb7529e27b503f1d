{#- `named_struct('a', <prefix>a, 'b', <prefix>b)`: a struct whose field names are spelled as given. -#}
{%- macro _struct(columns, prefix='') -%}
    {{ return('named_struct(' ~ afterimage._each(columns, '{name}, ' ~ prefix ~ '{column}') | join(', ') ~ ')') }}
{%- endmacro -%}
