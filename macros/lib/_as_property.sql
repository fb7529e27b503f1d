{#- A text as a table property stores it. It is hex, because `show tblproperties` hides every value that contains
    `url`, `token` or the like, as column names may (`hourly_rate`). -#}
{%- macro _as_property(text) -%}
    {{ return(text.encode('utf-8').hex()) }}
{%- endmacro -%}
