{#- Column name in lower case -> the column with its before-image: the prefix and the name, of the same type, and
    not declared as a data column by the caller. A before-image column has no before-image itself, so shorter names
    go first. -#}
{%- macro _before_columns(found, types, columns, prefix) -%}
    {%- set images = {} -%}
    {%- if not prefix -%}
        {{ return(images) }}
    {%- endif -%}
    {%- set given = columns | map('lower') | list -%}
    {%- set taken = [] -%}
    {%- for size in found | map('length') | unique | sort -%}
        {%- for name in found if name | length == size and (name | lower).startswith(prefix | lower) -%}
            {%- set plain = name[prefix | length:] | lower -%}
            {%- set matches = plain in types and types[plain] == types[name | lower] -%}
            {%- if matches and plain not in taken and name | lower not in given -%}
                {%- do images.update({plain: name}) -%}
                {%- do taken.append(name | lower) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(images) }}
{%- endmacro -%}
