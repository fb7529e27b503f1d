{#- Keeps an SCD2 table of a change stream: the model's body selects the stream, the config says the rest.

    The first run and a full refresh build the table from the whole stream. Any other run takes the rows of the
    stream that are new by `ingested_at`, finds the keys they touch and the earliest place where each key changes,
    rebuilds those keys from there on, and writes the versions that differ in one MERGE. The result equals that of a
    full refresh, row for row. -#}
{% materialization history, adapter='spark', supported_languages=['sql'] %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set existing_relation = load_relation(this) -%}
    {%- set stream = '(\n' ~ compiled_code ~ '\n)' -%}
    {%- if config.get('unique_key') is none -%}
        {%- do exceptions.raise_compiler_error(
            'history ' ~ model.name ~ ": `unique_key` is missing in the model's config. Write, for example: "
            ~ "{{ config(materialized='history', unique_key=['id']) }}"
        ) -%}
    {%- endif -%}
    {%- set options = afterimage._history_options(
        'history ' ~ model.name,
        config.get('unique_key'),
        config.get('track_columns'),
        config.get('ignore_columns'),
        config.get('overwrite_columns'),
        config.get('grain', 'change'),
        config.get('deletes', 'close'),
        config.get('meta_column_names'),
        config.get('load_valid_from'),
        config.get('valid_to_current')
    ) -%}
    {%- if config.get('file_format') == 'hudi' -%}
        {%- do exceptions.raise_compiler_error(
            'history ' ~ model.name ~ ": `file_format` must be one of ['iceberg', 'delta'], or a format that every run"
            ~ " rebuilds, such as 'parquet'. A Hudi table would keep one version per key. Got: hudi"
        ) -%}
    {%- endif -%}
    {%- if config.get('contract') and config.get('contract').enforced -%}
        {%- do exceptions.raise_compiler_error(
            'history ' ~ model.name ~ ": `contract` must not be enforced, because this materialization does not check"
            ~ " its columns against a contract. Use data tests instead. Got: enforced"
        ) -%}
    {%- endif -%}
    {%- set can_merge = config.get('file_format') in ['iceberg', 'delta'] -%}

    {{ run_hooks(pre_hooks) }}

    {%- if existing_relation is none or should_full_refresh() or not can_merge -%}
        {%- do afterimage._build_history(target_relation, existing_relation, stream, options) -%}
    {%- else -%}
        {%- do afterimage._update_history(target_relation, stream, options) -%}
    {%- endif -%}

    {%- do afterimage._complete_table(target_relation, existing_relation) -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
