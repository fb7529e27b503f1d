{%- macro _scaffold_callers(models, macro_name) -%}
    {%- set callers = [] -%}
    {%- for model in models if 'macro.afterimage.' ~ macro_name in model.depends_on.macros -%}
        {%- do callers.append(model) -%}
    {%- endfor -%}
    {{ return(callers) }}
{%- endmacro -%}
