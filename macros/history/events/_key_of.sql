{#- A row's key, to be looked for in a query. -#}
{%- macro _key_of(image, unique_key) -%}
    {{ return('(' ~ afterimage._quoted(unique_key, image ~ '.') | join(', ') ~ ')') }}
{%- endmacro -%}
