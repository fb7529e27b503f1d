{#- Upkeep of an Iceberg history, as a run-operation:

        dbt run-operation maintain_history --args '{history: customers_history, retain_days: 30}'

    Merges small files, applies the delete files of past runs to the data files, and expires snapshots older than
    `retain_days`, which time travel and rollback can then no longer reach. Arguments: macros/history/_history.yml. -#}
{% macro maintain_history(history, retain_days=30) %}
    {%- do afterimage._check_text('maintain_history', 'history', history) -%}
    {%- do afterimage._check_number('maintain_history', 'retain_days', retain_days, required=true) -%}
    {%- if execute -%}
        {%- set relation = ref(history) -%}
        {%- do afterimage._compact(relation) -%}
        {%- set oldest = run_started_at - modules.datetime.timedelta(days=retain_days) -%}
        {%- do afterimage._call_procedure(
            'expire_snapshots', relation,
            ", older_than => timestamp '" ~ oldest.strftime('%Y-%m-%d %H:%M:%S') ~ "', retain_last => 1"
        ) -%}
        {%- do log(history ~ ': compacted; snapshots older than ' ~ retain_days ~ ' days are gone', info=true) -%}
    {%- endif -%}
{% endmacro %}
