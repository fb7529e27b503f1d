{#- Version 10 of Db2 made 16 bytes of 10 by zeros in front, so that is how the two compare. -#}
{%- macro _db2_place(digits) -%}
lpad({{ digits }}, 32, '0')
{%- endmacro -%}
