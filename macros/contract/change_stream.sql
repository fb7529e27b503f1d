{#- Keeps a staging table: the changes that a source macro makes from raw rows, one row per change, keyed by change_id.

    The first run and a full refresh build the table. Any other run takes in what has landed since
    (macros/contract/_intake.sql) and merges it in one commit; without changes there is no commit. After the commit,
    the table's properties store what was read from which raw table. If a run is killed in between, the next one
    repeats it with the same result. -#}
{% materialization change_stream, adapter='spark', supported_languages=['sql'] %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set existing_relation = load_relation(this) -%}
    {%- set intakes = afterimage._intakes(compiled_code) -%}

    {{ run_hooks(pre_hooks) }}

    {%- if afterimage._is_incremental() -%}
        {%- do afterimage._update_stream(target_relation, compiled_code, intakes) -%}
    {%- else -%}
        {%- do afterimage._build_stream(target_relation, existing_relation, compiled_code, intakes) -%}
    {%- endif -%}
    {%- for intake in intakes -%}
        {%- do afterimage._drop_views(intake.views) -%}
    {%- endfor -%}

    {%- do afterimage._complete_table(target_relation, existing_relation) -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
