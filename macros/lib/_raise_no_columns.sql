{#- The error for a relation in which `_relation_columns` finds no columns. -#}
{%- macro _raise_no_columns(macro_name, relation) -%}
    {%- do exceptions.raise_compiler_error(
        macro_name ~ ": the columns of " ~ relation ~ " cannot be read. Build or land the table first, and check its"
        ~ " name and schema. An ephemeral model has no table."
    ) -%}
{%- endmacro -%}
