{#- The changes of the runs that a first look has found: what a staging run commits from then on is the next run's.
    Written so that files are left out by it. -#}
{%- macro _runs_condition(pending) -%}
    {{ return(
        '(ingested_at is null or ingested_at in (timestamp_micros('
        ~ ((pending.runs or [0]) | join('), timestamp_micros(')) ~ ')))'
    ) }}
{%- endmacro -%}
