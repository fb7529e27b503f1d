{%- macro _check_known(macro_name, argument, value, columns) -%}
    {%- for name in value or [] -%}
        {%- if name | lower not in columns | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": `" ~ argument ~ "` names a column that does not exist. Allowed: "
                ~ columns ~ ". Got: " ~ name
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}
