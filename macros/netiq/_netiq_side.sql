{#- The rows of the log, for the intake. An event is judged by those before and after it on the same row, so these are
    read together. Their group is the same for all ways to write one key, at least. -#}
{%- macro _netiq_side(layout) -%}
    {%- set log = layout.log -%}
    {%- set table_name = 'trim(cast(' ~ log.table_name ~ ' as string))' -%}
    {%- set group -%}
coalesce(
    array_join(
        array_sort(split(
            regexp_replace(
                regexp_replace(lower(cast({{ log.table_key }} as string)), '["\\\\\\s]', ''),
                '=0+(?=[0-9])',
                '='
            ),
            '[+]'
        )),
        '+'
    ),
    ''
)
    {%- endset -%}
    {#- A row that names no table is nobody's, so every model that reads the log accounts for it. -#}
    {{ return({
        'relation': layout.relation,
        'group': group,
        'where': "coalesce(" ~ table_name ~ ", '') = '' or lower(" ~ table_name ~ ') = '
            ~ afterimage._literal(layout.table | lower),
        'time': afterimage._netiq_event_time(layout),
    }) }}
{%- endmacro -%}
