{#- Whether a column of the base differs from its declared type. Unknown in a unit test. -#}
{%- macro _netiq_is_other_type(layout, column) -%}
    {%- set type = layout.base_types.get(column.name | lower, column.type) -%}
    {{ return(type | replace(' ', '') != column.type | replace(' ', '')) }}
{%- endmacro -%}
