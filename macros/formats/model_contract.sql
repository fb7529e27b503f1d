{#- A model's contract of dbt, for all materializations. -#}


{#- Compares the columns that a model yields with its contract, if that is enforced: the error is dbt's own. Constraints
    that the format cannot have are a warning, which dbt-spark leaves out. It adds none where the word has capitals. -#}
{%- macro _check_model_contract(sql) -%}
    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(sql) -%}
        {%- set is_delta = afterimage._model_format() == 'delta' and config.get('file_format', 'delta') == 'delta' -%}
        {%- set unsupported = [] if is_delta else afterimage._constraint_names(model) -%}
        {%- if unsupported -%}
            {%- do exceptions.warn(
                model.name ~ ': constraints are added to Delta tables (`file_format: delta`) alone. Not added: '
                ~ unsupported | join(', ') ~ '. Use data tests, or set `warn_unsupported: false` on each constraint.'
            ) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}


{#- The constraints of a model of which dbt is to warn, as people read them. -#}
{%- macro _constraint_names(node) -%}
    {%- set names = [] -%}
    {%- for column in node.columns.values() -%}
        {%- for constraint in column.constraints if constraint.warn_unsupported -%}
            {%- do names.append(constraint.type ~ ' (' ~ column.name ~ ')') -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for constraint in node.constraints if constraint.warn_unsupported -%}
        {%- do names.append(
            constraint.type ~ ' (' ~ (constraint.expression or constraint.columns | join(', ')) ~ ')'
        ) -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro -%}
