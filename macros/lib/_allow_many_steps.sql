{#- For a statement with so many steps that Spark needs more than its default 100 rounds to resolve it. -#}
{%- macro _allow_many_steps() -%}
    {%- if execute -%}
        {%- do run_query('set spark.sql.analyzer.maxIterations = 1000') -%}
    {%- endif -%}
{%- endmacro -%}
