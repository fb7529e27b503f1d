{%- macro _check_text(macro_name, argument, value) -%}
    {%- if value is not string or not value -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be a text that is not empty. Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}
