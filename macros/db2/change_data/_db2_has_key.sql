{#- Whether an image has its key. -#}
{%- macro _db2_has_key(layout, image) -%}
    {%- set conditions = [] -%}
    {%- for key in layout.unique_key -%}
        {%- do conditions.append(image ~ '.' ~ afterimage._quote(key) ~ ' is not null') -%}
    {%- endfor -%}
    {{ return('(' ~ conditions | join(' and ') ~ ')') }}
{%- endmacro -%}
