{#- Whether a column of the base is of another type than it is declared. In a unit test nobody can tell. -#}
{%- macro _netiq_is_other_type(layout, column) -%}
    {%- set type = layout.base_types.get(column.name | lower, column.type) -%}
    {{ return(type | replace(' ', '') != column.type | replace(' ', '')) }}
{%- endmacro -%}
