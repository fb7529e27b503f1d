{#- Statements that write tables, for all materializations and formats. -#}


{#- Builds the table from a query in one statement, atomic if the format allows it. The caller has compared the query
    with the model's contract, before it wrote anything. -#}
{%- macro _create_table_as(target_relation, existing_relation, properties, sql, partitioned_by=none) -%}
    {%- set create = afterimage._create_or_replace(existing_relation) -%}
    {%- set properties = dict(afterimage._of_model_format('name_properties')(sql), **properties) -%}
    {#- Options of dbt-databricks. Such a table must not be partitioned. -#}
    {%- set is_liquid = config.get('liquid_clustered_by') or config.get('auto_liquid_cluster') -%}
    {%- call statement('main') -%}
{{ create }} {{ target_relation }}
{%- if config.get('contract').enforced %}
{%- set sql = get_select_subquery(sql) %}
{%- endif %}
{{ file_format_clause() }}
{{ options_clause() }}
{{ afterimage._tblproperties(properties) }}
{{ partitioned_by if partitioned_by and not is_liquid else partition_cols(label="partitioned by") }}
{{ afterimage._clustered_and_located() }}
{{ comment_clause() }}
as
{{ sql }}
    {%- endcall -%}
    {#- In a build alone: Delta would refuse to add a CHECK that the table has. -#}
    {%- do persist_constraints(target_relation, model) -%}
{%- endmacro -%}


{#- How a new table is clustered and where it lies, as the model's config says. dbt-databricks has its own options. -#}
{%- macro _clustered_and_located() -%}
{%- if target.type == 'databricks' %}
{{ liquid_clustered_cols() }}
{{ clustered_cols(label="clustered by") }}
{{ location_clause(adapter.build_catalog_relation(config.model)) }}
{%- else %}
{{ clustered_cols(label="clustered by") }}
{{ location_clause() }}
{%- endif %}
{%- endmacro -%}


{#- The beginning of a statement that rebuilds a table. A table that its format cannot replace is dropped first. -#}
{%- macro _create_or_replace(existing_relation) -%}
    {%- set can_replace = afterimage._of_model_format('traits')().replaces -%}
    {%- set built = none if existing_relation is none else afterimage._listed_format(existing_relation)
        or ('iceberg' if existing_relation.is_iceberg else 'delta' if existing_relation.is_delta else none) -%}
    {%- set has_versions = built in ['iceberg', 'delta'] -%}
    {%- if existing_relation is not none and not (can_replace and has_versions) -%}
        {%- do adapter.drop_relation(existing_relation) -%}
    {%- elif has_versions -%}
        {%- do afterimage._of_format(built, 'before_replace')(existing_relation) -%}
    {%- endif -%}
    {{ return('create or replace table' if can_replace else 'create table') }}
{%- endmacro -%}


{#- The properties of a new table. Those of the model's config come first. -#}
{%- macro _tblproperties(properties) -%}
    {%- set assignments = [] -%}
    {%- for name, value in dict(properties, **(config.get('tblproperties') or {})).items() -%}
        {%- do assignments.append(afterimage._literal(name) ~ ' = ' ~ afterimage._literal(value | string)) -%}
    {%- endfor -%}
    {{ return('tblproperties (' ~ assignments | join(', ') ~ ')' if assignments else '') }}
{%- endmacro -%}


{#- Sets properties of a table, such as what it remembers of its runs. -#}
{%- macro _set_properties(relation, properties) -%}
    {%- set assignments = [] -%}
    {%- for name, value in properties.items() -%}
        {%- do assignments.append(afterimage._literal(name) ~ ' = ' ~ afterimage._literal(value)) -%}
    {%- endfor -%}
    {%- do run_query('alter table ' ~ relation ~ ' set tblproperties (' ~ assignments | join(', ') ~ ')') -%}
{%- endmacro -%}


{#- A MERGE of the rows of a query, `fresh`, into a table, `known`. Rows of `fresh` that meet the condition `removes`
    are deleted. It is a MERGE even if all rows are new: two runs at once could both INSERT them, while a MERGE fails
    at its commit if another run has added rows that it would have matched. -#}
{%- macro _merge_rows(target_relation, rows, matches, names, removes) -%}
merge into {{ target_relation }} as known
using ({{ rows }}) as fresh
    on {{ matches | indent(4) }}
when matched and {{ removes }} then delete
when matched then update set
    {%- for name in names %}
    known.{{ name }} = fresh.{{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
when not matched then insert ({{ names | join(', ') }})
values (
    {%- for name in names %}
    fresh.{{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}


{#- Aggregates for `_summary`: between which places the rows are that a run writes, here and in the table. -#}
{%- macro _place_bounds(place, known_place) -%}
    {%- set places = place ~ ', ' ~ known_place -%}
    {{ return({
        'first_place': 'min(least(nullif(' ~ place ~ ", ''), nullif(" ~ known_place ~ ", '')))",
        'last_place': 'max(greatest(' ~ places ~ '))',
        'has_unplaced': "bool_or('' in (" ~ places ~ '))',
    }) }}
{%- endmacro -%}


{#- The condition that a row of the table is at one of the places between `_place_bounds`. It lets a MERGE skip files,
    and it is what another run must not have added meanwhile. -#}
{%- macro _within_places(bounds, place) -%}
    {%- set conditions = [] -%}
    {%- if bounds.first_place is not none -%}
        {%- do conditions.append(
            place ~ ' between ' ~ afterimage._literal(bounds.first_place) ~ ' and ' ~ afterimage._literal(bounds.last_place)
        ) -%}
    {%- endif -%}
    {%- if bounds.has_unplaced -%}
        {%- do conditions.append(place ~ " = ''") -%}
    {%- endif -%}
    {{ return('(' ~ conditions | join(' or ') ~ ')') }}
{%- endmacro -%}


{#- A table beside the one that a run keeps, for rows that several statements of the run read. It is not a cached
    view, because the models of a run share one session. Spark analyses all cached views again whenever a table
    below them is written, with settings that another model may have changed. It also plans their readers for many
    rows, however few there are. -#}

{#- Writes a query's rows into a scratch table and returns it. -#}
{%- macro _scratch_table(target_relation, name, query) -%}
    {%- set of_run = run_started_at.strftime('%Y%m%d') ~ '_' ~ invocation_id[:8] -%}
    {%- set table = target_relation.incorporate(path={
        'identifier': afterimage._scratch_prefix(target_relation) ~ of_run ~ '_' ~ name
    }) -%}
    {%- set format = afterimage._of_model_format('traits')().scratch -%}
    {%- set is_mapped = format == 'delta' and afterimage._of_format('delta', 'name_properties')(query) -%}
    {#- Where a catalog says `false` for its tables, as Nessie does, Iceberg drops none with its files. -#}
    {%- set property = "'delta.columnMapping.mode' = 'name'" if is_mapped
        else "'gc.enabled' = 'true'" if format == 'iceberg' else none -%}
    {%- do run_query(
        'create table ' ~ table ~ ' using ' ~ format
        ~ (' tblproperties (' ~ property ~ ')' if property) ~ ' as\n' ~ query
    ) -%}
    {{ return(table) }}
{%- endmacro -%}


{%- macro _scratch_prefix(relation) -%}
    {{ return(relation.identifier ~ '__scratch_') }}
{%- endmacro -%}


{#- The scratch tables that runs which were killed have left beside a table. -#}
{%- macro _scratch_tables_left(relation) -%}
    {%- set left = [] -%}
    {%- for row in run_query('show tables in ' ~ relation.include(identifier=false)).rows -%}
        {%- do left.append(row[1]) if (row[1] | lower).startswith(afterimage._scratch_prefix(relation) | lower) -%}
    {%- endfor -%}
    {{ return(left) }}
{%- endmacro -%}


{#- Drops those that runs left which began before yesterday: a younger run may still be at work. dbt has listed the
    schema, so this asks Spark nothing. Only our Python package lets macros read that list (connections.py). -#}
{%- macro _drop_old_scratch_tables(target_relation) -%}
    {%- if adapter.list_relations is defined -%}
        {%- set prefix = modules.re.escape(afterimage._scratch_prefix(target_relation) | lower) -%}
        {%- set yesterday = (run_started_at - modules.datetime.timedelta(days=1)).strftime('%Y%m%d') -%}
        {%- set old = [] -%}
        {%- for listed in adapter.list_relations(none, target_relation.schema) -%}
            {%- set found = modules.re.match(prefix ~ '([0-9]{8})_[0-9a-f]{8}_', listed.identifier | lower) -%}
            {%- if found and found.group(1) < yesterday -%}
                {%- do old.append(target_relation.incorporate(path={'identifier': listed.identifier})) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- do afterimage._drop_scratch_tables(old) -%}
        {%- if old -%}
            {%- do log(
                model.name ~ ': dropped scratch tables of runs that did not end: '
                ~ old | map(attribute='identifier') | sort | join(', '), info=true
            ) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}


{#- Drops by name: listing the schema fails if another thread drops a table meanwhile (a Hadoop catalog on a local
    disk). Another run may drop the same old table. -#}
{%- macro _drop_scratch_tables(tables) -%}
    {%- for table in tables if table -%}
        {#- Databricks documents no PURGE. -#}
        {%- do run_query('drop table if exists ' ~ table ~ (' purge' if target.type == 'spark' else '')) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- Applies grants and docs, after the rows are written. -#}
{%- macro _complete_table(target_relation, existing_relation) -%}
    {%- do apply_grants(
        target_relation, config.get('grants'), should_revoke(existing_relation, full_refresh_mode=should_full_refresh())
    ) -%}
    {%- do persist_docs(target_relation, afterimage._model_with_new_comments(target_relation)) -%}
{%- endmacro -%}


{#- The model with those of its columns whose comment the table does not have: dbt writes all in each run, and Delta
    commits each. -#}
{%- macro _model_with_new_comments(relation) -%}
    {%- if not config.persist_column_docs() or not model.columns -%}
        {{ return(model) }}
    {%- endif -%}
    {%- set stored = {} -%}
    {%- for column in run_query('describe table ' ~ relation).rows -%}
        {%- do stored.setdefault(column['col_name'] | lower, column['comment'] or '') -%}
    {%- endfor -%}
    {%- set columns = {} -%}
    {%- for name, column in model.columns.items() if stored.get(name | lower) != column.description -%}
        {%- do columns.update({name: column}) -%}
    {%- endfor -%}
    {{ return(dict(model, columns=columns)) }}
{%- endmacro -%}


{#- The time so many days before the run began, as SQL. -#}
{%- macro _days_ago(days) -%}
    {%- set moment = run_started_at - modules.datetime.timedelta(days=days) -%}
    {{ return("timestamp '" ~ moment.strftime('%Y-%m-%d %H:%M:%S') ~ "'") }}
{%- endmacro -%}


{#- Compacts the table of a `kind` (staging, history, audit) if past runs have left many small files. It comes after a
    run, which began with a `version`. -#}
{%- macro _compact_when_due(relation, kind, version) -%}
    {%- set most = afterimage._option('compact_after', 50) -%}
    {%- do afterimage._check_number(
        config.get('materialized') ~ ' ' ~ model.name, 'compact_after', most, required=true
    ) -%}
    {%- if most > 0 and afterimage._of_model_format('compact_when_due')(relation, kind, most, version) -%}
        {%- do log(model.name ~ ': compacted', info=true) -%}
    {%- endif -%}
{%- endmacro -%}
