{#- Columns of an update that are NULL although the mask says they did not change: the source did not log them
    (Qlik, "Limitations and considerations" of the Oracle source: columns without supplemental logging, LOBs above
    all, are NULL in the change table unless updated). NULL if there is no such column, or no mask. -#}
{%- macro _qlik_absent_columns(columns, unique_key) -%}
    {%- set tests = {} -%}
    {%- for column in columns if column not in unique_key -%}
        {%- set is_flagged = 'array_contains(flagged_columns, ' ~ afterimage._literal(column) ~ ')' -%}
        {%- do tests.update({
            column: '(image.' ~ afterimage._quote(column) ~ ' is null and not ' ~ is_flagged ~ ')'
        }) -%}
    {%- endfor -%}
    {%- if not tests -%}
        {{ return('cast(null as array<string>)') }}
    {%- endif -%}
if(
    kind = 'update'
    and (
        {{ tests.values() | join(' or\n        ') }}
    ),
    array_compact(array(
        {%- for column, test in tests.items() %}
        if({{ test }}, {{ afterimage._literal(column) }}, null){{ ',' if not loop.last }}
        {%- endfor %}
    )),
    null
)
{%- endmacro -%}
