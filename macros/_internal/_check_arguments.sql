{#- Argument checks shared by the public macros; every message names the macro, the argument, what is
    allowed and what was given. -#}

{%- macro _check_choice(macro_name, argument, value, allowed) -%}
    {%- if value not in allowed -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be one of " ~ allowed ~ ". Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}


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
            macro_name ~ ": `" ~ argument ~ "` names a column twice. Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _check_known(macro_name, argument, value, columns) -%}
    {%- for name in value or [] -%}
        {%- if name | lower not in columns | map('lower') -%}
            {%- do exceptions.raise_compiler_error(
                macro_name ~ ": `" ~ argument ~ "` names a column that is not there. Allowed: "
                ~ columns ~ ". Got: " ~ name
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


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


{%- macro _check_text(macro_name, argument, value) -%}
    {%- if value is not string or not value -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `" ~ argument ~ "` must be a text that is not empty. Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Names in the spelling of those they mean. -#}
{%- macro _as_spelled(names, columns) -%}
    {%- set spelled = [] -%}
    {%- for name in names -%}
        {%- do spelled.append(columns[(columns | map('lower') | list).index(name | lower)]) -%}
    {%- endfor -%}
    {{ return(spelled) }}
{%- endmacro -%}


{#- The same names in the order of the columns, so that a change_id made of them does not depend on the argument's. -#}
{%- macro _in_order(names, columns) -%}
    {{ return(columns | select('in', afterimage._as_spelled(names, columns)) | list) }}
{%- endmacro -%}
