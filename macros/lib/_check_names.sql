{%- macro _check_names(macro_name, argument, value, required=false) -%}
    {%- if value is none and not required -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set is_list = value is sequence and value is not string and value is not mapping -%}
    {%- if not is_list or (required and not value) or value | reject('string') | list -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be a list of column names"
            ~ (", with at least one" if required else "") ~ ". Got: " ~ value
        ) -%}
    {%- endif -%}
    {%- if (value | map('lower') | unique | list | length) != (value | length) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` names a column twice (case does not matter). Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}
