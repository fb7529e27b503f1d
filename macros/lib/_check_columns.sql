{#- Checks that a relation given as an argument has these columns. -#}
{%- macro _check_columns(macro_name, argument, relation, needed) -%}
    {%- set found = afterimage._relation_columns(relation) | map(attribute='name') | list -%}
    {%- if needed | map('lower') | reject('in', found | map('lower') | list) | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be a relation with the columns " ~ needed | join(', ')
            ~ ". Got: " ~ relation ~ " with the columns " ~ found
        ) -%}
    {%- endif -%}
{%- endmacro -%}
