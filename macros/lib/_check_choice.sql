{#- Argument checks shared by the public macros. Every message names the macro, the argument, the allowed values and
    the given one. -#}
{%- macro _check_choice(macro_name, argument, value, allowed) -%}
    {%- if value not in allowed -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be one of " ~ allowed ~ ". Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}
