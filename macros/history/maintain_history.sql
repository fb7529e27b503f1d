{#- Upkeep of a history, as a run-operation:

        dbt run-operation maintain_history --args '{history: customers_history, retain_days: 30}'

    Merges small files, applies the delete files of past runs to the data files, and expires snapshots older than
    `retain_days`, which time travel and rollback can then no longer reach. Arguments: macros/history/_history.yml. -#}
{% macro maintain_history(history, retain_days=30) %}
    {%- do afterimage._check_text('maintain_history', 'history', history) -%}
    {%- do afterimage._check_number('maintain_history', 'retain_days', retain_days, required=true) -%}
    {%- if execute -%}
        {%- set relation = ref(history) -%}
        {%- set format = afterimage._landing_format(relation) -%}
        {%- do log(history ~ ': ' ~ afterimage._of_format(format, 'maintain')(relation, retain_days), info=true) -%}
    {%- endif -%}
{% endmacro %}
