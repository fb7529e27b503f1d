{%- macro _build_audit(target_relation, existing_relation, stream, options) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- set pending = afterimage._whole_stream(stream, options) -%}
    {%- set remembered = afterimage._remember(none, pending) -%}
    {%- set carried = afterimage._follow_rows(target_relation, stream, columns, options, remembered) -%}
    {%- do log(model.name ~ ': building from ' ~ pending.changes ~ ' changes', info=true) -%}
    {%- do afterimage._create_table_as(
        target_relation, existing_relation, afterimage._bookkeeping(options, remembered),
        afterimage._audit_of_keys(stream, columns, options, dict(remembered, carried=carried))
    ) -%}
    {%- do afterimage._drop_scratch_tables([carried]) -%}
    {%- if config.get('file_format') == 'iceberg' -%}
        {%- do afterimage._remember_taken_in(target_relation, remembered) -%}
    {%- endif -%}
{%- endmacro -%}
