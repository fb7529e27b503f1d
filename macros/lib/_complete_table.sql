{#- What every materialization does once the rows are written. -#}
{%- macro _complete_table(target_relation, existing_relation) -%}
    {%- do apply_grants(
        target_relation, config.get('grants'), should_revoke(existing_relation, full_refresh_mode=should_full_refresh())
    ) -%}
    {%- do persist_docs(target_relation, model) -%}
    {%- do persist_constraints(target_relation, model) -%}
{%- endmacro -%}
