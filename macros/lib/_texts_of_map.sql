{#- Some values of a map of texts as one text, which differs if they do. -#}
{%- macro _texts_of_map(values, names) -%}
    {{ return('to_json(array(' ~ afterimage._each(names, values ~ '[{name}]') | join(', ') ~ '))') }}
{%- endmacro -%}
