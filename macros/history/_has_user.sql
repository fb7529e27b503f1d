{#- Whether a stream says who made a change. A stream from elsewhere may leave that out. -#}
{%- macro _has_user(changes) -%}
    {%- set stream = changes if changes is string else afterimage._stored_relation(changes) -%}
    {%- set names = run_query('describe query select * from ' ~ stream ~ ' as changes').columns[0].values() -%}
    {{ return('changed_by' in names | map('lower')) }}
{%- endmacro -%}
