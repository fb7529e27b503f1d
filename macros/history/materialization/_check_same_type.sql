{#- Raises an error if a column of the stream has another type than in the table that was built from it. -#}
{%- macro _check_same_type(macro_name, target_relation, column, built_type) -%}
    {%- if afterimage._stored_type(built_type) != afterimage._stored_type(column.type) -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the column `" ~ column.name ~ "` is " ~ built_type ~ " in " ~ target_relation ~ " but "
            ~ column.type ~ " in the stream. Run `dbt run --full-refresh --select " ~ model.name ~ "`."
        ) -%}
    {%- endif -%}
{%- endmacro -%}
