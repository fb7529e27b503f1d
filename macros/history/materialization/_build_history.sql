{#- Builds the whole history from the whole stream, in one atomic statement if the format allows it. -#}
{%- macro _build_history(target_relation, existing_relation, stream, options) -%}
    {%- set columns = afterimage._stream_columns(options.macro_name, stream, needed=['ingested_at']) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set meta = afterimage._meta_columns(options.macro_name, options.meta_column_names, names) -%}
    {%- set is_iceberg = config.get('file_format') == 'iceberg' -%}
    {%- set pending = afterimage._whole_stream(stream, options) -%}
    {%- set remembered = afterimage._remember(none, pending) -%}
    {%- set carried = afterimage._follow_rows(target_relation, stream, columns, options, remembered) -%}

    {%- set properties = afterimage._bookkeeping(options, remembered) -%}
    {%- if is_iceberg -%}
        {#- A later MERGE writes its deletes and updates beside the data files instead of rewriting them. Versions
            are partitioned by what closed them: a MERGE mostly needs the open ones and, of the closed ones, those
            that ended their row. Each task writes all kinds, which saves the full build a shuffle. -#}
        {%- do properties.update({
            'format-version': '2',
            'write.merge.mode': 'merge-on-read',
            'write.update.mode': 'merge-on-read',
            'write.delete.mode': 'merge-on-read',
            'write.distribution-mode': 'none',
            'write.merge.distribution-mode': 'hash',
            'write.spark.fanout.enabled': 'true',
        }) -%}
        {#- These columns let files be skipped. By default Iceberg keeps metrics only for a table's first 100
            columns, and only 16 characters of each. -#}
        {%- for name in ['is_current', 'valid_from_seq', 'valid_to_seq'] -%}
            {%- do properties.update({
                'write.metadata.metrics.column.' ~ (options.meta_column_names or {}).get(name, name): 'full'
            }) -%}
        {%- endfor -%}
    {%- endif -%}

    {%- do log(model.name ~ ': building from ' ~ pending.changes ~ ' changes', info=true) -%}
    {%- do afterimage._create_table_as(
        target_relation, existing_relation, properties,
        afterimage._versions(stream, columns, options, facts=dict(remembered, carried=carried)),
        'partitioned by (' ~ meta.closed_by ~ ')' if is_iceberg and config.get('partition_by') is none else none
    ) -%}
    {%- do afterimage._drop_scratch_tables([carried]) -%}
    {%- if is_iceberg -%}
        {%- do afterimage._remember_taken_in(target_relation, remembered) -%}
    {%- endif -%}
{%- endmacro -%}
