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
        stored.schema | lower not in afterimage._file_formats()
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
        {%- set type = modules.re.sub('\\b(var)?char[(][0-9]+[)]', 'string', column.type) -%}
        {%- do columns.append({'name': column.name, 'type': type}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro -%}
