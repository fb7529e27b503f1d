{#- The columns of a query: a list of {name, type}, the types in small letters and as Spark can read them again. -#}
{%- macro _described(query) -%}
    {%- set found = run_query('describe query ' ~ query) -%}
    {%- if ' more fields>' in found.columns[1].values() | join -%}
        {#- By default Spark shows only the first 25 fields of a struct. -#}
        {%- do run_query('set spark.sql.debug.maxToStringFields = 100000') -%}
        {%- set found = run_query('describe query ' ~ query) -%}
    {%- endif -%}
    {%- set columns = [] -%}
    {#- dbt itself takes the types from a result, and over Thrift a result has none. -#}
    {%- for column in found -%}
        {#- Spark does not quote the names of a struct's fields. -#}
        {%- set type = modules.re.sub(
            '([<,])(?![a-z_][a-z0-9_]*:)([^<>,:`]+):', '\\1`\\2`:', column['data_type'] | lower
        ) -%}
        {%- do columns.append({'name': column['col_name'], 'type': type}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro -%}
