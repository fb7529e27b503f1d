{#- The changes of the runs that the first query found: what a staging run commits later is left to the next run.
    Written so that files can be skipped. -#}
{%- macro _runs_condition(pending) -%}
    {{ return(
        '(ingested_at is null or ingested_at in (timestamp_micros('
        ~ ((pending.runs or [0]) | join('), timestamp_micros(')) ~ ')))'
    ) }}
{%- endmacro -%}
