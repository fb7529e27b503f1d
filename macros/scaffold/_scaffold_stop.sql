{%- macro _scaffold_stop(text) -%}
    {%- do exceptions.raise_compiler_error("scaffold: " ~ text) -%}
{%- endmacro -%}
