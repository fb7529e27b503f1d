{#- Whether hex digits are a log sequence number: 10 bytes, or 16 since version 10. -#}
{%- macro _db2_is_place(digits) -%}
coalesce({{ digits }} rlike '^([0-9A-F]{20}|[0-9A-F]{32})$' and not {{ digits }} rlike '^0+$', false)
{%- endmacro -%}
