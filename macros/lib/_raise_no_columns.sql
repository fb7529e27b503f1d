{#- The error for a relation in which `_relation_columns` finds no columns. -#}
{%- macro _raise_no_columns(macro_name, relation) -%}
    {%- do exceptions.raise_compiler_error(
        macro_name ~ ": the columns of " ~ relation ~ " cannot be read. It must be a table that exists"
        ~ " (in a unit test: one in the schema of the model or of the target)."
    ) -%}
{%- endmacro -%}
