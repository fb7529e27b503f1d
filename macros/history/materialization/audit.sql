{#- Keeps an audit of a change stream: the rows of `change_audit`. The model's body selects the stream.

    The first run and a full refresh build it. Any other run takes the changes that are new by `ingested_at`, audits
    the keys that they touch again from their first change, and writes the differences in one commit. -#}
{% materialization audit, adapter='spark', supported_languages=['sql'] %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set existing_relation = load_relation(this) -%}
    {%- set stream = '(\n' ~ compiled_code ~ '\n)' -%}
    {%- set macro_name = 'audit ' ~ model.name -%}
    {%- if config.get('unique_key') is none -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `unique_key` is missing in the model's config. Write, for example: "
            ~ "{{ config(materialized='audit', unique_key=['id']) }}"
        ) -%}
    {%- endif -%}
    {%- set options = afterimage._history_options(
        macro_name, config.get('unique_key'), none, none, none, 'change', 'close', none, none
    ) -%}
    {%- set can_merge = config.get('file_format') in ['iceberg', 'delta'] -%}

    {{ run_hooks(pre_hooks) }}

    {%- if existing_relation is none or should_full_refresh() or not can_merge -%}
        {%- do afterimage._build_audit(target_relation, existing_relation, stream, options) -%}
    {%- else -%}
        {%- do afterimage._update_audit(target_relation, stream, options) -%}
    {%- endif -%}

    {%- do afterimage._complete_table(target_relation, existing_relation) -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
