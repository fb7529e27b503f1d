{#- A text as a table property keeps it: as hex, because `show tblproperties` hides each value that has `url`, `token`
    or the like in it, as names of columns may (`hourly_rate`). -#}
{%- macro _as_property(text) -%}
    {{ return(text.encode('utf-8').hex()) }}
{%- endmacro -%}
