{#- Builds the whole audit. -#}
{%- macro _build_audit(target_relation, existing_relation, stream, options) -%}
    {%- set pending = afterimage._whole_stream(stream, options) -%}
    {%- set remembered = afterimage._remember(none, pending) -%}
    {%- set carried = afterimage._audit_carried_values(target_relation, stream, options, remembered) -%}
    {%- do log(model.name ~ ': building from ' ~ pending.changes ~ ' changes', info=true) -%}
    {%- do afterimage._create_table_as(
        target_relation, existing_relation, afterimage._bookkeeping(options, remembered),
        afterimage._audit_of_keys(stream, options, dict(remembered, carried=carried))
    ) -%}
    {%- do afterimage._drop_scratch_tables([carried]) -%}
    {%- if config.get('file_format') == 'iceberg' -%}
        {%- do afterimage._remember_taken_in(target_relation, remembered) -%}
    {%- endif -%}
{%- endmacro -%}
