{#- Some values of a map of texts as one text, which differs if they do. -#}
{%- macro _texts_of_map(values, names) -%}
    {%- set texts = [] -%}
    {%- for name in names -%}
        {%- do texts.append(values ~ '[' ~ afterimage._literal(name) ~ ']') -%}
    {%- endfor -%}
    {{ return('to_json(array(' ~ texts | join(', ') ~ '))') }}
{%- endmacro -%}
