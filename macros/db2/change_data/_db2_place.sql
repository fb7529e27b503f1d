{#- Db2 version 10 extended 10 bytes to 16 with leading zeros, so the two compare that way. -#}
{%- macro _db2_place(digits) -%}
lpad({{ digits }}, 32, '0')
{%- endmacro -%}
