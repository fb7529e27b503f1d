{#- A typed key as one text, which identifies its row. -#}
{%- macro _netiq_key_text(keys, prefix) -%}
    {%- set values = [] -%}
    {%- for key in keys -%}
        {%- do values.append(afterimage._as_text(prefix ~ afterimage._quote(key.name), key.type)) -%}
    {%- endfor -%}
    {{ return('to_json(array(' ~ values | join(', ') ~ '))') }}
{%- endmacro -%}
