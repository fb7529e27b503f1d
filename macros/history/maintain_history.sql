{#- Upkeep of an Iceberg history, as a run-operation:

        dbt run-operation maintain_history --args '{history: customers_history, retain_days: 30}'

    Puts small files together, works the delete files of past runs into the data files, and forgets snapshots older than
    `retain_days` (which time travel and rollback then no longer reach). Arguments: macros/history/_history.yml. -#}
{% macro maintain_history(history, retain_days=30) %}
    {%- do afterimage._check_text('maintain_history', 'history', history) -%}
    {%- do afterimage._check_number('maintain_history', 'retain_days', retain_days, required=true) -%}
    {%- if execute -%}
        {%- set relation = ref(history) -%}
        {%- do afterimage._compact(relation) -%}
        {%- do run_query(
            "call system.expire_snapshots(table => " ~ afterimage._literal(relation | string)
            ~ ", older_than => timestamp '" ~ (run_started_at - modules.datetime.timedelta(days=retain_days)).strftime(
                '%Y-%m-%d %H:%M:%S'
            ) ~ "', retain_last => 1)"
        ) -%}
        {%- do log(history ~ ': compacted; snapshots older than ' ~ retain_days ~ ' days are gone', info=true) -%}
    {%- endif -%}
{% endmacro %}


{%- macro _compact(relation) -%}
    {%- set table = afterimage._literal(relation | string) -%}
    {%- do run_query(
        "call system.rewrite_data_files(table => " ~ table
        ~ ", options => map('delete-file-threshold', '1', 'min-input-files', '4'))"
    ) -%}
    {%- do run_query("call system.rewrite_position_delete_files(table => " ~ table ~ ")") -%}
{%- endmacro -%}


{#- After a run: compacts once the delete files have become many, for each is read with the data it belongs to. -#}
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
