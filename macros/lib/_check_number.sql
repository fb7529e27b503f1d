{%- macro _check_number(macro_name, argument, value, required=false) -%}
    {%- if value is none and not required -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if value is not integer or value is boolean or value < 0 -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be a whole number, 0 or more. Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}
