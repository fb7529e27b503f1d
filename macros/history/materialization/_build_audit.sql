{#- Builds the whole audit. -#}
{%- macro _build_audit(target_relation, existing_relation, stream, options) -%}
    {%- set pending = afterimage._pending_changes(stream, none, options) -%}
    {%- do pending.update({
        'trades': pending.ends > 0 and afterimage._trading_keys(stream, options.unique_key) > 0
    }) -%}
    {%- set facts = afterimage._remember(none, pending) -%}
    {%- do facts.update({'carried': afterimage._audit_carried_values(target_relation, stream, options, facts)}) -%}
    {%- set rows = afterimage._audit_of_keys(stream, options, facts) -%}
    {%- set properties = afterimage._bookkeeping(options, none, none, pending) -%}
    {%- do log(model.name ~ ': building from ' ~ pending.changes ~ ' changes', info=true) -%}
    {%- do afterimage._create_table_as(target_relation, existing_relation, properties, rows) -%}
    {%- do afterimage._drop_scratch_tables([facts.carried]) -%}
    {%- if config.get('file_format') == 'iceberg' -%}
        {%- do run_query(
            'alter table ' ~ target_relation ~ " set tblproperties ('afterimage.snapshot' = '"
            ~ afterimage._snapshot(target_relation) ~ "')"
        ) -%}
    {%- endif -%}
{%- endmacro -%}
