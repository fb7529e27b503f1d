{#- The data columns of a change stream, the fields of `after`: a list of {name, type}, the type unknown where the
    caller names the columns. An error if the stream lacks what each reader of it needs, or the columns `needed`. -#}
{%- macro _stream_columns(macro_name, changes, columns=none, needed=[]) -%}
    {%- set found = [] -%}
    {%- if columns is not none -%}
        {%- for column in columns -%}
            {%- do found.append({'name': column, 'type': none}) -%}
        {%- endfor -%}
        {{ return(found) }}
    {%- endif -%}
    {%- set stream = changes if changes is string else afterimage._stored_relation(changes) -%}
    {%- do afterimage._check_contract(macro_name, stream, needed) -%}
    {#- dbt's own way reads the types off a result, and over Thrift a result does not tell them. -#}
    {%- for column in run_query('describe query select `after`.* from ' ~ stream ~ ' as changes') -%}
        {%- do found.append({'name': column['col_name'], 'type': column['data_type'] | lower}) -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro -%}
