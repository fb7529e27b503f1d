{#- A row's key, as a value to look up in a query. -#}
{%- macro _key_of(image, unique_key) -%}
    {{ return('(' ~ afterimage._quoted(unique_key, image ~ '.') | join(', ') ~ ')') }}
{%- endmacro -%}
