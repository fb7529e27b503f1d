{#- The condition that an image has NULL in its key. -#}
{%- macro _has_null_key(unique_key, image='image') -%}
    {{ return('(' ~ afterimage._each(unique_key, image ~ '.{column} is null') | join(' or ') ~ ')') }}
{%- endmacro -%}
