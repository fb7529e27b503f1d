{#- The rows of the log, for the intake. Earlier and later events of the same row decide about an event, so they are
    read together. Different spellings of a key share a group; a group may hold more than one key. -#}
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
    {#- A row that names no table belongs to no model, so every model that reads the log accounts for it. -#}
    {{ return({
        'relation': layout.relation,
        'group': group,
        'where': "coalesce(" ~ table_name ~ ", '') = '' or lower(" ~ table_name ~ ') = '
            ~ afterimage._literal(layout.table | lower),
        'time': afterimage._netiq_event_time(layout),
    }) }}
{%- endmacro -%}
