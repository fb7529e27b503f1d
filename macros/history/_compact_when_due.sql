{#- Compacts after a run if there are many delete files, because reading a data file also reads its delete files. -#}
{%- macro _compact_when_due(relation) -%}
    {%- set most = config.get('compact_after', 50) -%}
    {%- do afterimage._check_number('history ' ~ model.name, 'compact_after', most, required=true) -%}
    {%- if most > 0 and config.get('file_format') == 'iceberg' -%}
        {%- set query -%}
            select cast(max_by(coalesce(summary['total-delete-files'], '0'), committed_at) as int)
            from {{ relation }}.snapshots
        {%- endset -%}
        {%- if (run_query(query).columns[0].values()[0] or 0) | int > most -%}
            {%- do afterimage._compact(relation) -%}
            {%- do log(model.name ~ ': compacted', info=true) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}
