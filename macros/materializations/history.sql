{#- Keeps an SCD2 table of a change stream: the model's body selects the stream, the config says the rest. -#}
{% materialization history, adapter='spark', supported_languages=['sql'] %}
    {%- set target_relation = api.Relation.create(
        database=database, schema=schema, identifier=model['alias'], type='table'
    ) -%}
    {%- set existing_relation = load_relation(this) -%}

    {{ run_hooks(pre_hooks) }}

    {%- if existing_relation is not none and not existing_relation.is_iceberg and not existing_relation.is_delta -%}
        {%- do adapter.drop_relation(existing_relation) -%}
    {%- endif -%}
    {%- set history_sql = scd2(
        '(' ~ compiled_code ~ ')',
        unique_key=config.require('unique_key'),
        track_columns=config.get('track_columns'),
        ignore_columns=config.get('ignore_columns'),
        overwrite_columns=config.get('overwrite_columns'),
        grain=config.get('grain', 'change'),
        deletes=config.get('deletes', 'close'),
        meta_column_names=config.get('meta_column_names'),
        load_valid_from=config.get('load_valid_from')
    ) -%}
    {%- call statement('main') -%}
        {{ create_table_as(False, target_relation, history_sql) }}
    {%- endcall -%}

    {%- do apply_grants(target_relation, config.get('grants'), should_revoke(existing_relation, full_refresh_mode=True)) -%}
    {%- do persist_docs(target_relation, model) -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
