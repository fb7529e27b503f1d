{#- Columns of an update that hold NULL although the mask says they did not change: what the source did not log
    (Qlik, "Limitations and considerations" of the Oracle source: columns without supplemental logging, LOBs above all,
    are NULL in the change table unless updated). NULL where there is no such column or no mask to tell by. -#}
{%- macro _qlik_absent_columns(columns, unique_key) -%}
    {%- set candidates = columns | reject('in', unique_key) | list -%}
    {%- if not candidates -%}
        {{ return('cast(null as array<string>)') }}
    {%- endif -%}
if(
    kind = 'update'
    and ({{ afterimage._qlik_any_absent(columns, unique_key) | indent(4) }}),
    array_compact(array(
        {%- for column in candidates %}
        if({{ afterimage._qlik_is_absent(column) }}, {{ afterimage._literal(column) }}, null)
        {%- if not loop.last %},{% endif %}
        {%- endfor %}
    )),
    null
)
{%- endmacro -%}
