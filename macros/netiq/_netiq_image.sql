{#- A row that holds the key and the values of the logged fields. -#}
{%- macro _netiq_image(layout, values) -%}
    {{ return(afterimage._struct(layout.names, values ~ '.', layout.unique_key, 'key_values.{column}')) }}
{%- endmacro -%}
