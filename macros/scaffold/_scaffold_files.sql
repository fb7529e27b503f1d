{#- What is to be written: the name of the `staging` model, `files` (path -> text) and `notes` on models that are there
    already. Whatever the first files are that were written, the project parses: a file comes after those that it refers
    to, and properties after all models. -#}
{%- macro _scaffold_files(name, found, plan, landed, others, existing, arguments, file_format) -%}
    {%- set folder = 'models/staging/' ~ found.folder ~ '/' -%}
    {%- set folders = {
        'staging': folder, 'history': 'models/history/', 'current': 'models/current/', 'audit': 'models/audit/'
    } -%}
    {%- set planned = {
        'staging': 'stg_' ~ found.folder ~ '__' ~ name, 'history': name ~ '_history', 'current': name ~ '_current',
        'audit': name ~ '_audit'
    } -%}
    {%- if existing.staging is none -%}
        {%- do afterimage._scaffold_check_names(landed, planned, afterimage._scaffold_systems()) -%}
    {%- endif -%}
    {%- set models = {} -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'model' -%}
        {%- for kind in planned if node.name == planned[kind] and existing[kind] is none -%}
            {%- do models.update({kind: node}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set names = {'name': name} -%}
    {%- for kind in planned -%}
        {%- do models.update({kind: existing[kind] or models.get(kind)}) -%}
        {%- do names.update({kind: models[kind].name if models[kind] else planned[kind]}) -%}
    {%- endfor -%}

    {%- set of_history = afterimage._meta_columns('scaffold', none, []) -%}
    {%- set meta = afterimage._scaffold_renamed(plan.columns, of_history, 'history_') -%}
    {%- if models.history and models.history.config.materialized == 'history' -%}
        {%- set meta = models.history.config.get('meta_column_names') or {} -%}
    {%- endif -%}
    {%- set key_columns = plan.columns | selectattr('name', 'in', plan.unique_key) | list -%}
    {%- set audit_meta = afterimage._scaffold_renamed(key_columns, afterimage._audit_columns(), 'audit_') -%}
    {%- do names.update({
        'meta': meta, 'renamed': afterimage._scaffold_mapping(meta),
        'audit_meta': audit_meta, 'audit_renamed': afterimage._scaffold_mapping(audit_meta)
    }) -%}
    {%- set sql = {
        'staging': afterimage._scaffold_staging_sql(found, plan, landed, arguments, file_format),
        'history': afterimage._scaffold_kept_sql(
            names, plan, 'history', names.renamed if names.meta else none, file_format
        ),
        'current': afterimage._scaffold_current_sql(names),
        'audit': afterimage._scaffold_kept_sql(
            names, plan, 'audit', names.audit_renamed if names.audit_meta else none, file_format
        ),
    } -%}
    {%- set properties = {
        'staging': afterimage._scaffold_staging_yml(names, found, plan),
        'history': afterimage._scaffold_history_yml(names, plan),
        'current': afterimage._scaffold_current_yml(names, plan),
        'audit': afterimage._scaffold_audit_yml(names, plan),
    } -%}

    {%- set sources = [] -%}
    {%- for table in [landed] + (others.values() | list) if table.source is not none and not models.staging -%}
        {%- do sources.append(table) -%}
    {%- endfor -%}
    {%- set notes = [] -%}
    {%- set files = {'models/docs/' ~ name ~ '.md': afterimage._scaffold_docs(name, plan)} -%}
    {%- if sources -%}
        {%- set text = afterimage._scaffold_sources(name, found, plan, landed, sources) -%}
        {%- do files.update({folder ~ 'src_' ~ found.folder ~ '__' ~ name ~ '.yml': text}) -%}
    {%- endif -%}
    {%- if existing.staging -%}
        {%- do notes.append(
            landed.name ~ ' is already read by ' ~ existing.streams | join(', ') ~ '. What is new is built on '
            ~ names.staging ~ '.'
        ) -%}
    {%- endif -%}
    {#- A model that is somewhere else in the project would be there twice. -#}
    {%- for kind in planned -%}
        {%- set path = folders[kind] ~ planned[kind] ~ '.sql' -%}
        {%- if not models[kind] or models[kind].original_file_path == path -%}
            {%- do files.update({path: sql[kind]}) -%}
        {%- elif kind != 'staging' -%}
            {%- do notes.append(names[kind] ~ ' is there already: ' ~ models[kind].original_file_path ~ '.') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for kind in planned if names[kind] == planned[kind] -%}
        {%- set path = folders[kind] ~ planned[kind] ~ '.yml' -%}
        {%- if not models[kind] or not models[kind].patch_path or models[kind].patch_path.endswith('://' ~ path) -%}
            {%- do files.update({path: properties[kind]}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({'staging': names.staging, 'files': files, 'notes': notes}) }}
{%- endmacro -%}


{%- macro _scaffold_sources(name, found, plan, landed, sources) %}
sources:
{%- for schema, tables in sources | groupby('source.schema') %}
  - name: {{ tables[0].source.name }}
    {%- if tables[0].source.name != schema %}
    schema: {{ schema }}
    {%- endif %}
    tables:
    {%- for table in tables %}
      - name: {{ afterimage._scaffold_yaml(table.identifier) }}
        {%- if table is sameas landed %}
        description: The changes of {{ name }} as they landed, {{ found.title }}.
        columns:
        {%- for column in table.columns %}
          - name: {{ afterimage._scaffold_yaml(column.name) }}
            description: {{ afterimage._scaffold_description(column.name, name, found, plan) }}
        {%- endfor %}
        {%- else %}
        description: Landed beside the changes of {{ name }}.
        {%- endif %}
    {%- endfor %}
{%- endfor %}
{% endmacro -%}


{%- macro _scaffold_description(column, name, found, plan) -%}
    {%- if column in found.described -%}
        {{ return(afterimage._scaffold_doc(found.described[column])) }}
    {%- elif column in plan.columns | map(attribute='name') -%}
        {{ return(afterimage._scaffold_doc(afterimage._scaffold_doc_name(name, column))) }}
    {%- endif -%}
    {{ return('As it landed.') }}
{%- endmacro -%}


{%- macro _scaffold_staging_sql(found, plan, landed, arguments, file_format) -%}
    {%- set given = {'unique_key': plan.unique_key | list | string} -%}
    {%- do given.update(plan.call) -%}
    {%- for argument, value in arguments.items() -%}
        {%- do given.update({argument: afterimage._literal(value) if value is string else value | string}) -%}
    {%- endfor %}
{%- raw %}{{ config(
    materialized='change_stream',
    file_format='{% endraw %}{{ file_format }}'
{%- raw %}
) }}

{{ afterimage.{% endraw %}{{ found.macro }}(
    {{ landed.reference }}
    {%- for argument, value in given.items() %},
    {{ argument }}={{ value }}
    {%- endfor %}
) {% raw %}}}{% endraw %}
{% endmacro -%}


{%- macro _scaffold_staging_yml(names, found, plan) -%}
models:
  - name: {{ names.staging }}
    description: The changes of {{ names.name }}, from {{ found.title }}. One row per change.
    columns:
      {%- for column in afterimage._contract_columns() + ['ingested_at'] %}
      - name: {{ column }}
        description: {{ afterimage._scaffold_doc('change_contract__' ~ column) }}
        {%- if column == 'change_id' %}
        data_tests: [unique, not_null]
        {%- endif %}
      {%- endfor %}
    data_tests:
      {%- if plan.landed_rows is not none %}
      # More rows landed than accounted for: some landed after the run. Fewer: the landed table was pruned, and a full
      # refresh would lose what only this model still holds.
      - afterimage.every_row_accounted_for:
          arguments:
            relation: {{ tojson(plan.landed_rows) }}
      {%- endif %}
      # What could not be understood is kept with its reject_reason. Look at it, then let this be an error.
      - afterimage.no_rejected_changes:
          config:
            severity: warn
      {%- if plan.has_before_images %}
      - afterimage.before_images_agree:
          arguments:
            unique_key: {{ tojson(plan.unique_key) }}
          config:
            severity: warn
      {%- endif %}
{% endmacro -%}


{#- A history or an audit of the stream. -#}
{%- macro _scaffold_kept_sql(names, plan, materialized, renamed, file_format) -%}
{%- raw %}{{ config(
    materialized='{% endraw %}{{ materialized }}',
    unique_key={{ plan.unique_key }},
    {%- if renamed %}
    meta_column_names={{ renamed }},
    {%- endif %}
    file_format='{{ file_format }}'
) {% raw %}}}

select * from {{ ref('{% endraw %}{{ names.staging }}{% raw %}') }}
{% endraw %}
{%- endmacro -%}


{%- macro _scaffold_history_yml(names, plan) -%}
models:
  - name: {{ names.history }}
    description: What each row of {{ names.name }} was, and when. One row per version of a row.
    columns:
      {{- afterimage._scaffold_data_columns(names, plan) }}
      {%- for column in afterimage._meta_columns('scaffold', none, []) %}
      - name: {{ names.meta.get(column, column) }}
        description: {{ afterimage._scaffold_doc('history__' ~ column) }}
        {%- if column == 'history_id' %}
        data_tests: [unique, not_null]
        {%- endif %}
      {%- endfor %}
    data_tests:
      {%- for test in ['history_has_no_overlaps', 'one_current_version_per_key', 'versions_chain'] %}
      - afterimage.{{ test }}:
          arguments:
            unique_key: {{ tojson(plan.unique_key) }}
            {%- if names.meta %}
            meta_column_names: {{ tojson(names.meta) }}
            {%- endif %}
      {%- endfor %}
{% endmacro -%}


{%- macro _scaffold_current_sql(names) -%}
    {%- set renamed = ', meta_column_names=' ~ names.renamed if names.meta else '' %}
{%- raw %}{{ config(materialized='table') }}

{{ afterimage.current_state(ref('{% endraw %}{{ names.history }}'){{ renamed }}) {% raw %}}}{% endraw %}
{% endmacro -%}


{%- macro _scaffold_current_yml(names, plan) -%}
models:
  - name: {{ names.current }}
    description: >
      The rows of {{ names.name }} as they are now: the open versions of {{ names.history }}. One row per row of the
      source.
    columns:
      {{- afterimage._scaffold_data_columns(names, plan, tested=true) }}
      {%- for column in ['valid_from', 'valid_from_seq', 'version', 'transaction_id'] %}
      - name: {{ names.meta.get(column, column) }}
        description: {{ afterimage._scaffold_doc('history__' ~ column) }}
      {%- endfor %}
{% endmacro -%}


{%- macro _scaffold_audit_yml(names, plan) -%}
models:
  - name: {{ names.audit }}
    description: Who changed what of a row of {{ names.name }}, and when. One row per changed column of a change.
    columns:
      {%- for column in plan.columns if column.name in plan.unique_key %}
      - name: {{ afterimage._scaffold_yaml(column.name) }}
        description: {{ afterimage._scaffold_doc(afterimage._scaffold_doc_name(names.name, column.name)) }}
      {%- endfor %}
      {%- for column in afterimage._audit_columns() %}
      {%- set spec = 'change_contract__' if column in afterimage._contract_columns() else 'audit__' %}
      - name: {{ names.audit_meta.get(column, column) }}
        description: {{ afterimage._scaffold_doc(spec ~ column) }}
      {%- endfor %}
{% endmacro -%}


{%- macro _scaffold_docs(name, plan) -%}
What the columns of {{ name }} mean, said once: its models, and the source, refer to it.
{% set written = [] -%}
{%- for column in plan.columns -%}
{%- set doc_name = afterimage._scaffold_doc_name(name, column.name) -%}
{%- if doc_name not in written %}
{{ '{%' }} docs {{ doc_name }} {{ '%}' }}
`{{ column.name }}` of {{ plan.table }}, {{ column.type }}
{{- ', part of the key' if column.name in plan.unique_key }}.
{{ '{%' }} enddocs {{ '%}' }}
{% do written.append(doc_name) -%}
{%- endif -%}
{%- endfor -%}
{%- endmacro -%}


{#- The data columns of a model's properties. -#}
{%- macro _scaffold_data_columns(names, plan, tested=false) -%}
{%- for column in plan.columns %}
      - name: {{ afterimage._scaffold_yaml(column.name) }}
        description: {{ afterimage._scaffold_doc(afterimage._scaffold_doc_name(names.name, column.name)) }}
        {%- if not modules.re.match('^[A-Za-z][A-Za-z0-9_]*$', column.name) %}
        quote: true
        {%- endif %}
        {%- if tested and column.name in plan.unique_key %}
        data_tests: [{{ 'unique, ' if plan.unique_key | length == 1 }}not_null]
        {%- endif %}
{%- endfor %}
{%- endmacro -%}


{#- Columns of ours that data columns bear the names of: ours -> our other name. -#}
{%- macro _scaffold_renamed(columns, ours, prefix) -%}
    {%- set taken = columns | map(attribute='name') | map('lower') | list -%}
    {%- set renamed = {} -%}
    {%- for name in ours if name in taken -%}
        {%- do renamed.update({name: prefix ~ name if prefix ~ name not in taken else '_' ~ prefix ~ name}) -%}
    {%- endfor -%}
    {{ return(renamed) }}
{%- endmacro -%}


{%- macro _scaffold_mapping(mapping) -%}
    {{ return(tojson(mapping) | replace('"', "'")) }}
{%- endmacro -%}


{#- Names of doc blocks are letters, digits and underscores; columns whose names would come to the same share one. -#}
{%- macro _scaffold_doc_name(name, column) -%}
    {{ return(name ~ '__' ~ modules.re.sub('[^A-Za-z0-9]+', '_', column).strip('_')) }}
{%- endmacro -%}


{%- macro _scaffold_doc(doc_block) -%}
    {{ return('"{' ~ "{ doc('" ~ doc_block ~ "') }" ~ '}"') }}
{%- endmacro -%}


{#- A name in YAML, in quotes where it could be taken for something else than a text. -#}
{%- macro _scaffold_yaml(name) -%}
    {%- set is_plain = modules.re.match('^[A-Za-z][A-Za-z0-9_]*$', name)
        and name | lower not in ['y', 'n', 'yes', 'no', 'on', 'off', 'true', 'false', 'null'] -%}
    {{ return(name if is_plain else tojson(name)) }}
{%- endmacro -%}
