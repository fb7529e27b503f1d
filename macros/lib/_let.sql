{#- SQL that names a value once and uses it several times in `body`. -#}
{%- macro _let(name, value, body) -%}
element_at(transform(array({{ value }}), {{ name }} -> {{ body }}), 1)
{%- endmacro -%}
