{#- Builds the whole staging table. The same statement stores what was read. -#}
{%- macro _build_stream(target_relation, existing_relation, sql, intakes) -%}
    {%- set names = run_query('describe query ' ~ sql).columns[0].values() -%}
    {%- set missing = (afterimage._contract_columns() + ['ingested_at']) | reject('in', names) | list -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            'change_stream ' ~ model.name ~ ": the model must return the columns of the change contract, as a source"
            ~ " macro does. For any other table use dbt's `table` or `incremental`. Missing: " ~ missing | join(', ')
        ) -%}
    {%- endif -%}
    {%- set properties = {} -%}
    {%- if config.get('file_format') == 'iceberg' -%}
        {#- Full metrics give the newest change without reading a file, and let Iceberg skip files by the whole
            change_seq. -#}
        {%- do properties.update({'write.metadata.metrics.column.change_seq': 'full'}) -%}
    {%- endif -%}
    {%- if afterimage._tracks_reads() -%}
        {%- do properties.update({
            'afterimage.read': afterimage._as_property(tojson(afterimage._read_states(intakes))),
            'afterimage.snapshot': '',
            'afterimage.keys': afterimage._as_property(tojson(afterimage._keys(sql))),
        }) -%}
    {%- endif -%}
    {%- do afterimage._create_table_as(target_relation, existing_relation, properties, sql) -%}
    {%- if afterimage._tracks_reads() -%}
        {%- do afterimage._remember_read(target_relation, intakes, keeps_earlier=false) -%}
    {%- endif -%}
    {%- set counts = run_query(
        'select count(*) as changes, count(reject_reason) as rejected from ' ~ target_relation
    ).rows[0] -%}
    {%- do log(model.name ~ ': built, ' ~ counts[0] ~ ' changes: ' ~ counts[1] ~ ' rejected', info=true) -%}
{%- endmacro -%}
