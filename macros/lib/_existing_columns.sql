{#- The columns of a relation, as `_relation_columns` gives them, or an error if it finds none. -#}
{%- macro _existing_columns(macro_name, relation) -%}
    {%- set columns = afterimage._relation_columns(relation) -%}
    {%- if not columns -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the columns of " ~ relation ~ " cannot be read. Build or land the table first, and check"
            ~ " its name and schema. An ephemeral model has no table."
        ) -%}
    {%- endif -%}
    {{ return(columns) }}
{%- endmacro -%}
