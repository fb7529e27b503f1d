{#- A column of the base as it would have been logged. -#}
{%- macro _netiq_base_text(layout, column) -%}
    {{ return(afterimage._netiq_as_logged(
        afterimage._quote(column.name), layout.base_types.get(column.name | lower, column.type)
    )) }}
{%- endmacro -%}
