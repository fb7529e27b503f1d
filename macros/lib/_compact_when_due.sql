{#- Compacts after a run if past runs have left many files of a `kind`: `delete` files, because reading a data file also
    reads its delete files, or `data` files, if runs append to the table. -#}
{%- macro _compact_when_due(relation, kind) -%}
    {%- set most = config.get('compact_after', 50) -%}
    {%- do afterimage._check_number(
        config.get('materialized') ~ ' ' ~ model.name, 'compact_after', most, required=true
    ) -%}
    {%- if most > 0 and config.get('file_format') == 'iceberg' -%}
        {%- set query -%}
            {%- if kind == 'delete' -%}
            select max_by(summary['total-delete-files'], committed_at)
            from {{ relation }}.snapshots
            {%- else -%}
            select sum(summary['added-data-files'])
            from {{ relation }}.snapshots
            where
                committed_at > (
                    select coalesce(max(committed_at), timestamp '1970-01-01')
                    from {{ relation }}.snapshots
                    -- A compaction, or a build; both may have expired.
                    where operation = 'replace' or parent_id is null
                )
            {%- endif -%}
        {%- endset -%}
        {%- if (afterimage._value(query) or 0) | int > most -%}
            {%- do afterimage._compact(relation) -%}
            {%- do log(model.name ~ ': compacted', info=true) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}
