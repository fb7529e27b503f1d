{#- The columns of a query: a list of {name, type}, the types in small letters and as Spark can read them again. -#}
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
        {#- Spark does not quote the names of a struct's fields. -#}
        {%- set type = modules.re.sub('([<,])(?![a-z_][a-z0-9_]*:)([^<>,:`]+):', '\\1`\\2`:', type | lower) -%}
        {%- do columns.append({'name': column['col_name'], 'type': type}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro -%}
