{#- Raises an error if a raw table was read by another key before: which rows replaced which, and which were paired,
    was decided by that key. A table of an earlier release does not say its key. -#}
{%- macro _check_keys(target_relation, sql, intakes) -%}
    {%- set built_with = afterimage._from_property(
        afterimage._table_properties(target_relation).get('afterimage.keys')
    ) -%}
    {%- for now in afterimage._keys(sql) -%}
        {%- set before = fromjson(built_with or '[]') | selectattr('name', 'equalto', now.name)
            | map(attribute='key') | list -%}
        {%- if before and now.key not in before -%}
            {%- for intake in intakes -%}
                {%- do afterimage._drop_views(intake.views) -%}
            {%- endfor -%}
            {%- do exceptions.raise_compiler_error(
                'change_stream ' ~ model.name ~ ": the `unique_key` of " ~ now.name ~ " has changed since "
                ~ target_relation ~ " was built. Restore it, or run `dbt run --full-refresh --select " ~ model.name
                ~ "+`; copy the table first if rows of the raw table have been deleted. Built with: "
                ~ before[0] | join(', ') ~ ". Got: " ~ now.key | join(', ')
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}
