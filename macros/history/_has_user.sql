{#- Whether a stream says who made a change. A stream from elsewhere may leave that out. -#}
{%- macro _has_user(changes) -%}
    {%- set stream = changes if changes is string else afterimage._stored_relation(changes) -%}
    {%- set found = [] -%}
    {%- for column in run_query('describe query select * from ' ~ stream ~ ' as changes') -%}
        {%- do found.append(column['col_name'] | lower) -%}
    {%- endfor -%}
    {{ return('changed_by' in found) }}
{%- endmacro -%}
