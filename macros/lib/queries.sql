{#- Small questions to Spark, to a table's metadata and to the project's settings. -#}


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


{#- For a statement with so many steps that Spark needs more than its default 100 rounds to resolve it. -#}
{%- macro _allow_many_steps() -%}
    {%- if execute -%}
        {%- do run_query('set spark.sql.analyzer.maxIterations = 1000') -%}
    {%- endif -%}
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
    } -%}
    {{ return(var(name, defaults[name])) }}
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


{#- The current snapshot of a table of the model's format; none for formats other than Iceberg, which rely on their own
    checks. -#}
{%- macro _snapshot(relation) -%}
    {{ return(afterimage._current_snapshot(relation) if config.get('file_format') == 'iceberg' else none) }}
{%- endmacro -%}


{#- The current snapshot of an Iceberg table; none if it never had a row. -#}
{%- macro _current_snapshot(relation) -%}
    {{ return(afterimage._value(
        'select cast(max(snapshot_id) as string) from ' ~ relation ~ ".refs where name = 'main'"
    )) }}
{%- endmacro -%}


{#- The condition that a table is still at the snapshot that the run has read. A run must not overwrite what another
    run has committed since. -#}
{%- macro _is_at_snapshot(relation, snapshot) -%}
{%- if snapshot is none -%}
true
{%- else -%}
{%- set overtaken = model.name ~ ': another run has changed ' ~ relation ~ '. Run again, one run at a time.' -%}
if(
    (select max(snapshot_id) from {{ relation }}.refs where name = 'main') = {{ snapshot }},
    true,
    raise_error({{ afterimage._literal(overtaken) }})
)
{%- endif -%}
{%- endmacro -%}


{#- Whether our table was rolled back after it stored what it had read or taken in. A rollback takes back the rows
    but not the properties. -#}
{%- macro _is_rolled_back(relation, snapshot, present) -%}
    {%- if not snapshot or present == snapshot -%}
        {{ return(false) }}
    {%- endif -%}
    {{ return(afterimage._value(
        'select count_if(not is_current_ancestor) from ' ~ relation ~ '.history where snapshot_id = ' ~ snapshot | int
    ) > 0) }}
{%- endmacro -%}
