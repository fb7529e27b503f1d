{#- Columns of an update that are NULL although the mask says they did not change: the source did not log them
    (Qlik, "Limitations and considerations" of the Oracle source: columns without supplemental logging, LOBs above
    all, are NULL in the change table unless updated). NULL if there is no such column, or no mask. -#}
{%- macro _qlik_absent_columns(columns, unique_key) -%}
    {%- set columns = columns | reject('in', unique_key) | list -%}
    {%- if not columns -%}
        {{ return('cast(null as array<string>)') }}
    {%- endif -%}
    {%- set is_absent = '(image.{column} is null and not array_contains(flagged_columns, {name}))' -%}
if(
    kind = 'update'
    and (
        {{ afterimage._each(columns, is_absent) | join(' or\n        ') }}
    ),
    array_compact(array(
        {{ afterimage._each(columns, 'if(' ~ is_absent ~ ', {name}, null)') | join(',\n        ') }}
    )),
    null
)
{%- endmacro -%}
