{#- The columns, quoted, each after a prefix such as `image.`. -#}
{%- macro _quoted(columns, prefix='') -%}
    {{ return(afterimage._each(columns, prefix ~ '{column}')) }}
{%- endmacro -%}
