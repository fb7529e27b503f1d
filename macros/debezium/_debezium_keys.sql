{#- The key's values, as texts. -#}
{%- macro _debezium_keys(values, keys) -%}
    {%- set texts = [] -%}
    {%- for key in keys -%}
        {%- do texts.append(values ~ '[' ~ afterimage._literal(key) ~ ']') -%}
    {%- endfor -%}
    {{ return(texts | join(', ')) }}
{%- endmacro -%}
