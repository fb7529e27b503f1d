{#- The columns of a relation in physical order: a list of {name, type}; empty where they cannot be known
    (while parsing, or for a CTE that no table stands behind). Text of a limited length reads as any other. -#}
{%- macro _relation_columns(relation) -%}
    {%- if not execute or relation is string -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set stored = afterimage._stored_relation(relation) -%}
    {#- Asks for what may not be there. Where dbt has listed the schema at the start of the run, that costs nothing. -#}
    {%- set listed = [target.schema, model.schema if model is defined else none] -%}
    {%- if
        (stored.schema not in listed or load_relation(stored) is none)
        and not adapter.get_columns_in_relation(stored)
        and load_relation(stored) is none
    -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set columns = [] -%}
    {#- dbt's own way ends at the first column whose name begins with `#`, as names in Db2 may. Hudi's own columns are
        none of the data's. -#}
    {%- for column in run_query('describe query select * from ' ~ stored)
        if not column['col_name'].startswith('_hoodie_')
    -%}
        {%- set type = modules.re.sub('\\b(var)?char[(][0-9]+[)]', 'string', column['data_type'] | lower) -%}
        {%- do columns.append({'name': column['col_name'], 'type': type}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro -%}


{#- The error for a relation of which `_relation_columns` finds none. -#}
{%- macro _raise_no_columns(macro_name, relation) -%}
    {%- do exceptions.raise_compiler_error(
        macro_name ~ ": the columns of " ~ relation ~ " cannot be read. It must be a table that exists"
        ~ " (in a unit test: one in the schema of the model or of the target)."
    ) -%}
{%- endmacro -%}


{#- A type to compare with another: as Iceberg stores it, which has no whole numbers smaller than an int, and without
    the capitals that the fields of a struct may have. -#}
{%- macro _stored_type(type) -%}
    {{ return(modules.re.sub('\\b(tinyint|smallint)\\b', 'int', type | lower)) }}
{%- endmacro -%}


{#- In a unit test dbt hands over a CTE named after the input; the input's own table has its columns. With `--empty` a
    relation stands for a query of no rows, which nobody can describe. -#}
{%- macro _stored_relation(relation) -%}
    {%- if not relation.identifier.startswith('__dbt__cte__') -%}
        {{ return(relation.replace(limit=none)) }}
    {%- endif -%}
    {%- set identifier = relation.identifier | replace('__dbt__cte__', '') -%}
    {%- for schema in [model.schema, target.schema] | unique -%}
        {%- set stored = load_relation(api.Relation.create(schema=schema, identifier=identifier)) -%}
        {%- if stored is not none -%}
            {{ return(stored) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(relation) }}
{%- endmacro -%}
