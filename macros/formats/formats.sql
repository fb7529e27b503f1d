{#- What table formats do differently. Each of `iceberg`, `delta` and `files` (everything else: Parquet, ORC, CSV, JSON,
    Avro, and Hudi) answers the same questions, in macros whose names begin with the format's:

    | question | answer |
    |---|---|
    | `traits` | `merges`: whether a run can add to a table by MERGE; `replaces`: whether a table is replaced in one commit; |
    | | `keeps_properties`: whether a rollback leaves properties as they are; `scratch`: the format of scratch tables |
    | `version(relation)` | the table's present version, as a text; none if there is none |
    | `is_at_version(relation, version)` | a condition for a writing statement: the table is still at this version |
    | `refuse_if_overtaken(relation, version, began_with)` | after it: an error if another run has written in between; then the table gets the properties `began_with`, so that the next run repeats this one |
    | `is_rolled_back(relation, version, present)` | whether rows were taken back since a version, but not what the properties remember |
    | `properties(kind, renamed)` | the properties of a new table: `kind` is staging, history or audit, `renamed` what `meta_column_names` says |
    | `name_properties(sql)` | the properties that a table needs for the names of a query's columns |
    | `partitioning(kind, renamed)` | how such a table is partitioned by default |
    | `before_replace(existing)` | what must be done before a table is replaced |
    | `compact_when_due(relation, kind, most, version)` | compacts a table that `most` runs have written to, after a run that began with `version`; returns whether it did |
    | `maintain(relation, retain_days)` | compacts, and removes what only older versions need; returns what a log line says of it |
    | `expire_when_due(relation, retain_days)` | removes what only versions need that are older, if there is enough of it, and asking takes no time; returns whether it did |
    | `forget(relation)` | removes at once what only older versions of a table have: their files, and rows that are marked as deleted |
    | `files_left(relation)` | the files below a table that its present version does not have |
    | `stored_type(type)` | the type that a table has where it was given this one |
    | `before_add(relation, name, type)` | what must be done before a column, or a field of that name, is added |
    | `widens(built, found)` | whether a column of a table may get another type, which is wider |
    | `widen_column(relation, column, type)` | gives it that type, or a field inside it |
    | `landed(side, read, is_incremental)` | what has landed in a raw table, as `_landed` lists it |
    | `last_landed(relation)` | a query for the time when rows last landed in a raw table |

    A further format is one more file with these answers, and its name in `_of_format`. -#}


{#- The macro by which a format answers a question. -#}
{%- macro _of_format(format, question) -%}
    {{ return(afterimage['_' ~ (format if format in ['iceberg', 'delta'] else 'files') ~ '_' ~ question]) }}
{%- endmacro -%}


{#- The same for the format of the model's own table. -#}
{%- macro _of_model_format(question) -%}
    {{ return(afterimage._of_format(afterimage._model_format(), question)) }}
{%- endmacro -%}


{#- dbt-databricks makes Delta tables where nothing is said. Spark knows a format in any letters. -#}
{%- macro _model_format() -%}
    {%- set format = model.config.get('file_format') or ('delta' if target.type == 'databricks' else none) -%}
    {{ return(format | lower if format else none) }}
{%- endmacro -%}


{#- Raises an error if earlier runs have built the model's table in another format, and no full refresh was asked for.
    To rebuild it would lose what it alone still has, and no run can add to a table of another format. Between formats
    that every run rebuilds nothing is lost. -#}
{%- macro _check_format_kept(existing_relation) -%}
    {%- do afterimage._check_adapter() -%}
    {%- do afterimage._check_listed(existing_relation) -%}
    {%- if existing_relation is none or existing_relation.type != 'table' or should_full_refresh() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set built = afterimage._listed_format(existing_relation) -%}
    {%- set format = afterimage._model_format() -%}
    {%- if built not in [none, format] and (built not in afterimage._file_formats() or afterimage._can_merge()) -%}
        {%- do exceptions.raise_compiler_error(
            model.config.materialized ~ ' ' ~ model.name ~ ": `file_format` must be '" ~ built ~ "', as it was when "
            ~ existing_relation ~ ' was built. If it is another table, such as a landed one, give the model another'
            ~ ' `alias`. For another format run `dbt run --full-refresh --select ' ~ model.name
            ~ '`; copy the table first if rows of the tables that it reads have been deleted. Got: '
            ~ (format or 'none')
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Raises an error under another child of dbt-spark: dbt finds our materializations there, too. dbt-glue writes each
    statement into Python source, which takes the backslashes for its own. -#}
{%- macro _check_adapter() -%}
    {%- if target.type not in ['spark', 'databricks'] -%}
        {%- do exceptions.raise_compiler_error(
            model.config.materialized ~ ' ' ~ model.name ~ ': the adapter must be dbt-spark or dbt-databricks,'
            ~ ' as another may change our statements. For tables in the Glue catalog see docs/operations/cluster.md. Got: '
            ~ target.type
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Raises an error if the model's table exists and dbt did not find it: to build it would lose what it alone still has.
    Spark lists the tables of a schema without its catalog, see spark__list_relations_without_caching. For dbt-spark a
    schema is empty if one of its tables is dropped while Spark lists them; before 1.11 after any error. -#}
{%- macro _check_listed(existing_relation) -%}
    {%- set names_catalog = '.' in this.schema -%}
    {%- if existing_relation is none and (names_catalog or target.type == 'spark') and not should_full_refresh()
        and adapter.get_columns_in_relation(this) -%}
        {%- do exceptions.raise_compiler_error(
            model.config.materialized ~ ' ' ~ model.name ~ ': ' ~ this ~ ' exists, but dbt does not find it, as the schema'
            ~ " names its catalog. For Iceberg's `SparkCatalog` write this line into dbt_project.yml: dispatch:"
            ~ ' [{macro_namespace: dbt, search_order: [' ~ project_name ~ ', afterimage, dbt]}]. For any other catalog make'
            ~ ' it the default one (`spark.sql.defaultCatalog`), and name the schema without it. Got: ' ~ this.schema
            if names_catalog
            else model.config.materialized ~ ' ' ~ model.name ~ ': ' ~ this ~ ' exists, but dbt did not find it when it listed'
            ~ ' the schema: another job may have dropped a table at that moment, or the catalog failed. Run again. If it'
            ~ " stops again, run `show table extended in " ~ this.schema ~ " like '*'` in Spark, which names what fails. Got: "
            ~ this.schema
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- The format of a table in dbt's list of its schema, so that this asks Spark nothing; none if the list does not say.
    Spark lists an Iceberg table of its session catalog as one of Hive, with a property that says what it is. -#}
{%- macro _listed_format(relation) -%}
    {%- set text = relation.information or '' -%}
    {%- set listed = (relation.metadata or {}).get('Provider') if target.type == 'databricks'
        else 'iceberg' if 'table_type=ICEBERG' in text
        else modules.re.findall('(?m)^Provider: (\\w+)', text) | last -%}
    {%- set format = (listed or '') | lower -%}
    {{ return(format if format in ['iceberg', 'delta', 'hudi'] + afterimage._file_formats() else none) }}
{%- endmacro -%}


{#- Whether the model's table can be added to: by MERGE, which dbt's `incremental` needs too. -#}
{%- macro _can_merge() -%}
    {{ return(afterimage._of_model_format('traits')().merges) }}
{%- endmacro -%}


{#- The present version of the model's own table. -#}
{%- macro _version(relation) -%}
    {{ return(afterimage._of_model_format('version')(relation)) }}
{%- endmacro -%}


{#- The version to note with what a table remembers; an empty text where a rollback takes the properties back too. -#}
{%- macro _noted_version(relation) -%}
    {{ return(
        (afterimage._version(relation) if afterimage._of_model_format('traits')().keeps_properties else none) or ''
    ) }}
{%- endmacro -%}


{#- The condition that a table is still at the version that the run has read. A run must not overwrite what another
    run has committed since. -#}
{%- macro _is_at_version(relation, version) -%}
    {{ return(afterimage._of_model_format('is_at_version')(relation, version)) }}
{%- endmacro -%}


{#- Whether the rows of the model's own table were taken back since a version, but not its properties. -#}
{%- macro _is_rolled_back(relation, version, present) -%}
    {{ return(afterimage._of_model_format('is_rolled_back')(relation, version, present)) }}
{%- endmacro -%}


{#- What a run says if another one has written to its table. -#}
{%- macro _overtaken(relation) -%}
    {{ return(model.name ~ ': another run has changed ' ~ relation ~ '. Run again, one run at a time.') }}
{%- endmacro -%}


{#- How a relation finds its landed rows: `iceberg` and `delta` by versions, `files` by their times. Nothing else can:
    not a CTE of a unit test, a sample, a view, or a branch of an Iceberg table. -#}
{%- macro _landing_format(relation) -%}
    {%- if relation is string or relation.identifier.startswith('__dbt__cte__') -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set whole = afterimage._whole(relation) -%}
    {%- if whole | string != relation | string -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if afterimage._is_read_by_path(relation) -%}
        {{ return('delta' if relation.schema | lower == 'delta' else 'files') }}
    {%- elif '.' in relation.identifier -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set listed = afterimage._load_relation(whole) -%}
    {%- if listed is not none and (listed.is_iceberg or listed.is_delta) -%}
        {{ return('iceberg' if listed.is_iceberg else 'delta') }}
    {%- endif -%}
    {#- DESCRIBE EXTENDED lists the columns first. A column may be called Provider, so search from the end. -#}
    {%- for row in run_query('describe table extended ' ~ whole).rows | list | reverse if row[0] == 'Provider' -%}
        {%- set provider = row[1] | lower -%}
        {{ return(
            'files' if provider in afterimage._file_formats() else provider if provider in ['iceberg', 'delta'] else none
        ) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro -%}


{#- What has landed in a raw table:
    - `kind`: `all` (the first run, or nobody can tell), `new`, `nothing`, or `unknown` (nobody asks),
    - `rows`: what to read from. For a table with versions this is the present one, so that later commits are left to
      the next run,
    - `landed`: for `new`, a query in brackets. It may return more rows than have landed: known change_ids are not
      written again. `may_be_gone`: whether some of its rows may have been deleted or replaced since, or landed since,
    - `views`: temporary views that `landed` needs,
    - `state`: what to remember about the table; `is_remembered` if that is already remembered,
    - `count`: the number of landed rows; `reason`: why all are read. Both are for the log line,
    - `extents`, `has_unplaced`: their places, and `digest_now`; _landed_summary says what they are,
    - `name`: the table, as it is remembered. -#}
{%- macro _landed(
    relation, kind, rows=none, landed=none, views=[], state=none, is_remembered=false, count=none, reason=none,
    may_be_gone=false
) -%}
    {{ return({
        'kind': kind, 'name': relation | string, 'rows': rows or afterimage._rows_of(relation), 'landed': landed,
        'views': views, 'state': state, 'is_remembered': is_remembered, 'count': count, 'reason': reason, 'extents': [],
        'has_unplaced': false, 'digest_now': none, 'may_be_gone': may_be_gone,
    }) }}
{%- endmacro -%}


{#- A relation to read from. That of a unit test is a query of literals, and Spark would put each expression of literals
    in the place of its name, again and again: of the many steps of a message it made minutes. The rows of a generator
    are no literals. -#}
{%- macro _rows_of(relation) -%}
    {%- if model.resource_type == 'unit_test' -%}
        {{ return('(select inline(array(struct(*))) from ' ~ relation ~ ')') }}
    {%- endif -%}
    {{ return(relation | string) }}
{%- endmacro -%}


{#- The condition that a text column or number is between two bounds, or NULL. For what has landed in files with known
    bounds, it lets a format leave the other files out. -#}
{%- macro _within_bounds(column, first, last) -%}
    {{ return(
        '(' ~ column ~ ' between ' ~ afterimage._literal(first) ~ ' and ' ~ afterimage._literal(last) ~ ' or ' ~ column
        ~ ' is null)'
    ) }}
{%- endmacro -%}


{#- A table at a version. A version has the columns of its time, but a macro names the current ones. If they changed
    without a commit since, the table is read as it is; rows that land meanwhile are read twice. -#}
{%- macro _at_version(relation, version) -%}
    {%- set at = relation ~ ' version as of ' ~ version -%}
    {%- set kept = afterimage._described('select * from ' ~ at) -%}
    {{ return(at if kept == afterimage._described('select * from ' ~ relation) else relation | string) }}
{%- endmacro -%}
