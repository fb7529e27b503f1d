{#- Questions to Spark: what columns a relation has (dbt also parses, compiles, runs unit tests and defers), the value
    of a query, the metadata of a table. Then the project's settings. -#}


{#- The columns of a relation, as `_relation_columns` gives them, or an error if it finds none. -#}
{%- macro _existing_columns(macro_name, relation) -%}
    {%- set columns = afterimage._relation_columns(relation) -%}
    {%- if not columns -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": the columns of " ~ relation ~ " cannot be read. Build or land the table first, and check"
            ~ " its name and schema. An ephemeral model has no table."
        ) -%}
    {%- endif -%}
    {{ return(columns) }}
{%- endmacro -%}


{#- The columns of a relation in physical order: a list of {name, type}. Empty if they cannot be known: while
    parsing, or for a CTE without a table behind it. Text of limited length counts as plain text. -#}
{%- macro _relation_columns(relation) -%}
    {%- if not execute or relation is string -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set stored = afterimage._stored_relation(relation) -%}
    {#- The relation may not exist. The check is free if dbt has listed the schema at the start of the run.
        Files that Spark reads by their path are in no list. -#}
    {%- set listed = [target.schema, model.schema if model is defined else none] -%}
    {%- if
        not afterimage._is_read_by_path(stored)
        and (stored.schema not in listed or afterimage._load_relation(stored) is none)
        and not adapter.get_columns_in_relation(stored)
        and afterimage._load_relation(stored) is none
    -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set columns = [] -%}
    {#- dbt itself stops at the first column whose name begins with `#`, as Db2 names may. Hudi's own columns are
        not data. -#}
    {%- for column in afterimage._described('select * from ' ~ stored) if not column.name.startswith('_hoodie_') -%}
        {%- set of_text = '\\b(var)?char[(][0-9]+[)]' -%}
        {%- do columns.append({
            'name': column.name,
            'type': modules.re.sub(of_text, 'string', column.type),
            'spelled': modules.re.sub(of_text, 'string', column.spelled),
        }) -%}
    {%- endfor -%}
    {%- do afterimage._check_files_by_path(stored, columns) if stored.schema | lower != 'delta' -%}
    {{ return(columns) }}
{%- endmacro -%}


{#- In a unit test dbt passes a CTE named after the input; the input's own table has its columns. Only dbt's manifest
    says which table that is. With `--empty` or `--sample` a relation becomes a query, which cannot be described. -#}
{%- macro _stored_relation(relation) -%}
    {%- if not relation.identifier.startswith('__dbt__cte__') -%}
        {{ return(afterimage._whole(relation)) }}
    {%- endif -%}
    {%- set name = relation.identifier | replace('__dbt__cte__', '') -%}
    {%- for input in builtins.ref.manifest.nodes.values() if
        model.resource_type == 'unit_test'
        and input.resource_type == 'model'
        and (input.cte_name or input.identifier) == name
    -%}
        {%- for place in [input, input.defer_relation] if place -%}
            {%- set stored = afterimage._load_relation(
                api.Relation.create(database=place.database, schema=place.schema, identifier=place.alias)
            ) -%}
            {%- if stored is not none -%}
                {{ return(stored) }}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(relation) }}
{%- endmacro -%}


{#- dbt's `load_relation`, for names with capitals too (`CDC_Crate`). dbt looks for these in small letters, and stops
    with an error when it finds the capitals. An ephemeral model has no schema and no table. -#}
{%- macro _load_relation(relation) -%}
    {%- if relation.schema is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if relation.render() == relation.render() | lower or afterimage._is_read_by_path(relation) -%}
        {{ return(load_relation(relation)) }}
    {%- endif -%}
    {{ return(relation if adapter.get_columns_in_relation(relation) else none) }}
{%- endmacro -%}


{#- The relation of a node of dbt's graph, in the way of `source` and `ref`: these look up what the model that is at
    work may see, and no model is at work here. -#}
{%- macro _relation_of_node(node) -%}
    {{ return(
        source(node.source_name, node.name) if node.resource_type == 'source'
        else api.Relation.create(database=node.database, schema=node.schema, identifier=node.alias)
    ) }}
{%- endmacro -%}


{%- macro _file_formats() -%}
    {{ return(['parquet', 'orc', 'csv', 'json', 'avro', 'text']) }}
{%- endmacro -%}


{#- Whether a relation names files by their path, with the format in the place of a schema, which a schema may have as
    its name, too. -#}
{%- macro _is_read_by_path(relation) -%}
    {{ return(
        relation.schema | lower in afterimage._file_formats() + ['delta']
        and modules.re.search('[/:]', relation.identifier) is not none
    ) }}
{%- endmacro -%}


{#- The columns of a query: a list of {name, type, spelled}, the types valid in Spark SQL. `type` is in lower case, to
    compare; `spelled` has the names of a struct's fields as they are. -#}
{%- macro _described(query) -%}
    {%- set columns = [] -%}
    {#- dbt itself takes the types from a result, and over Thrift a result has none. -#}
    {%- for column in run_query('describe query ' ~ query) -%}
        {%- set type = column['data_type'] -%}
        {%- if ' more fields>' in type -%}
            {#- Spark shows only the first 25 fields of a struct. -#}
            {%- set type = run_query(
                'select typeof(' ~ afterimage._quote(column['col_name']) ~ ') from (select 1) left join (' ~ query
                ~ ' limit 0) on true'
            )[0][0] -%}
        {%- endif -%}
        {%- do columns.append({
            'name': column['col_name'], 'type': afterimage._quoted_fields(type | lower), 'spelled': afterimage._quoted_fields(type)
        }) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro -%}


{#- A type as Spark shows it, with the names of a struct's fields in quotes, where they need them. -#}
{%- macro _quoted_fields(type) -%}
    {{ return(modules.re.sub('([<,])(?![a-z_][a-z0-9_]*:)([^<>,:`]+):', '\\1`\\2`:', type)) }}
{%- endmacro -%}


{#- Whether a query that depends on the columns of these relations must do without them: while dbt parses, and when
    `dbt compile` or `dbt docs generate` runs before they are built. -#}
{%- macro _needs_placeholder(relations) -%}
    {%- if not execute -%}
        {{ return(true) }}
    {%- endif -%}
    {%- if flags.WHICH not in ['compile', 'generate'] -%}
        {{ return(false) }}
    {%- endif -%}
    {%- for relation in relations if relation is not none and relation is not string -%}
        {%- if afterimage._load_relation(afterimage._stored_relation(relation)) is none -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro -%}


{#- The placeholder for such a query. It never runs, but people read it. -#}
{%- macro _placeholder_query() -%}
-- This query depends on the columns of the tables it reads, and they do not exist yet. Build them first.
select 1 as nothing
{%- endmacro -%}


{#- The value that a query gives, in one row of one column. -#}
{%- macro _value(query) -%}
    {{ return(run_query(query).columns[0].values()[0]) }}
{%- endmacro -%}


{#- Aggregates over a relation as a dictionary: name -> SQL becomes name -> value. The values come as JSON, because over
    Thrift a result has no types. -#}
{%- macro _summary(relation, aggregates) -%}
    {%- set fields = [] -%}
    {%- for name, aggregate in aggregates.items() -%}
        {%- do fields.append(afterimage._literal(name) ~ ', ' ~ aggregate) -%}
    {%- endfor -%}
    {{ return(fromjson(afterimage._value(
        'select to_json(named_struct(' ~ fields | join(', ') ~ "), map('ignoreNullFields', 'false')) from " ~ relation
    ))) }}
{%- endmacro -%}


{%- macro _table_properties(relation) -%}
    {{ return(dict(run_query('show tblproperties ' ~ relation).rows | map('list') | list)) }}
{%- endmacro -%}


{#- A text as a table property stores it. It is hex, because `show tblproperties` hides every value that contains
    `url`, `token` or the like, as column names may (`hourly_rate`). -#}
{%- macro _as_property(text) -%}
    {{ return(text.encode('utf-8').hex()) }}
{%- endmacro -%}


{#- The inverse of `_as_property`; none for any other text. -#}
{%- macro _from_property(value) -%}
    {%- if value is none or not modules.re.fullmatch('([0-9a-f]{2})+', value) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(''.encode('utf-8').fromhex(value).decode('utf-8')) }}
{%- endmacro -%}


{#- For a statement with so many steps that Spark needs more than its default 100 rounds to resolve it, and that Java
    compiles only if Spark splits what it writes for them (docs/start/as_a_package.md). A warehouse of Databricks takes
    no such settings. -#}
{%- macro _allow_many_steps() -%}
    {%- if execute and target.type == 'spark' -%}
        {%- do run_query('set `spark.sql.analyzer.maxIterations` = `1000`') -%}
        {%- do run_query('set `spark.sql.codegen.hugeMethodLimit` = `8000`') -%}
    {%- endif -%}
{%- endmacro -%}


{#- Whether Spark knows that rows have less than `afterimage_small_table` MiB. It reads none for that. With `row_bytes`,
    rows that Spark can count have so many each: it takes any text for 20 bytes. -#}
{%- macro _is_small(rows, row_bytes=none) -%}
    {%- set plan = run_query('explain cost select * from ' ~ rows).rows | map('first') | join(' ') -%}
    {%- set sizes = modules.re.findall('sizeInBytes=([0-9.E+]+) (B|KiB|MiB)[,)]', plan) -%}
    {%- set counts = modules.re.findall('rowCount=([0-9.E+]+)', plan) if row_bytes else [] -%}
    {%- set factors = {'B': 1 / 1048576, 'KiB': 1 / 1024, 'MiB': 1} -%}
    {%- set limit = afterimage._setting('afterimage_small_table') -%}
    {%- if counts -%}
        {{ return(counts[0] | float * row_bytes < limit * 1048576) }}
    {%- endif -%}
    {{ return(sizes | length > 0 and sizes[0][0] | float * factors[sizes[0][1]] < limit) }}
{%- endmacro -%}


{#- Whether a run reads so many landed messages that a longer statement pays off, which Spark takes longer to plan. A
    message counts as 160 bytes. -#}
{%- macro _are_many(relation, intake) -%}
    {%- set side, bytes = intake.sides[0], 160 -%}
    {%- if intake.kind == 'new' -%}
        {{ return((side['count'] or 0) * bytes >= afterimage._setting('afterimage_small_table') * 1048576) }}
    {%- endif -%}
    {{ return(not (
        relation.identifier.startswith('__dbt__cte__')
        or (flags.WHICH in ['run', 'build'] and afterimage._is_small(side.rows, bytes))
    )) }}
{%- endmacro -%}


{#- The project's settings and their defaults. The defaults are here and not in dbt_project.yml, because a macro
    called from another project's model sees only that project's vars. docs/reference/configuration.md explains
    them. -#}
{%- macro _setting(name) -%}
    {%- set defaults = {
        'afterimage_lookback_hours': none,
        'afterimage_load_valid_from': '1900-01-01 00:00:00',
        'afterimage_rebuild': none,
        'afterimage_on_gap': 'warn',
        'afterimage_small_table': 16,
    } -%}
    {{ return(var(name, defaults[name])) }}
{%- endmacro -%}
