{#- The data columns of a change stream, which are the fields of `after`: a list of {name, type}. The type is
    unknown if the caller names the columns. Raises an error if the stream lacks a column that every reader needs,
    or one of `needed`. -#}
{%- macro _stream_columns(macro_name, changes, columns=none, needed=[]) -%}
    {%- if columns is not none -%}
        {%- set found = [] -%}
        {%- for column in columns -%}
            {%- do found.append(column if column is mapping else {'name': column, 'type': none}) -%}
        {%- endfor -%}
        {{ return(found) }}
    {%- endif -%}
    {%- set stream = changes if changes is string else afterimage._stored_relation(changes) -%}
    {%- do afterimage._check_contract(macro_name, stream, needed) -%}
    {{ return(afterimage._described('select `after`.* from ' ~ stream ~ ' as changes')) }}
{%- endmacro -%}
