{#- The condition that an image has NULL in its key. -#}
{%- macro _has_null_key(unique_key, image='image') -%}
    {%- set conditions = [] -%}
    {%- for key in afterimage._quoted(unique_key, image ~ '.') -%}
        {%- do conditions.append(key ~ ' is null') -%}
    {%- endfor -%}
    {{ return('(' ~ conditions | join(' or ') ~ ')') }}
{%- endmacro -%}
