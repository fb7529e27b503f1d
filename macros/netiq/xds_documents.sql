{#- Identity Manager JDBC event log table -> the XDS documents of its Publisher channel. Arguments:
    xds_documents.yml. -#}
{%- macro xds_documents(
    relation,
    unique_key,
    table,
    columns,
    schema,
    base=none,
    driver_user=none,
    allow_loopback=false,
    future_events=false,
    as_of=none,
    column_names={},
    force_username_case=none,
    statuses=['N'],
    trim_key_numbers=false,
    time_zone=none,
    query_back_inserts='modify'
) -%}
    {%- set rules = {
        'driver_user': driver_user,
        'allow_loopback': allow_loopback,
        'future_events': future_events,
        'as_of': as_of,
        'force_username_case': force_username_case,
        'statuses': statuses,
        'trim_key_numbers': trim_key_numbers,
        'precedence': 'driver',
    } -%}
    {%- set layout = afterimage._netiq_layout(
        'xds_documents', relation, unique_key, table, columns, base, column_names, time_zone, rules
    ) -%}
    {%- do afterimage._check_text('xds_documents', 'schema', schema) -%}
    {%- do afterimage._check_choice('xds_documents', 'query_back_inserts', query_back_inserts, ['modify', 'add']) -%}
    {%- if not execute -%}
        {{ return('select 1 as parsed') }}
    {%- endif -%}
    {%- set octets = layout.columns | selectattr('type', 'equalto', 'binary') | map(attribute='name') | list -%}

with

{{ afterimage._netiq_changes(layout, false) }},

attributed as (

    select
        *,
        case
            when event_kind = 'delete' then 'delete'
            when event_kind = 'insert' or (kind = 'insert' and '{{ query_back_inserts }}' = 'add') then 'add'
            else 'modify'
        end as event,
        concat(
            table_key, {{ afterimage._literal(',table=' ~ table ~ ',schema=' ~ schema) }}
        ) as association,
        -- A query-back gives the present row, so it replaces all earlier values.
        case
            when not is_query_back
                then transform(
                    fields,
                    f -> named_struct(
                        'name', f.column_name,
                        'type',
                        if(array_contains({{ afterimage._string_array(octets) }}, f.column_name), 'octet', 'string'),
                        'remove_all', f.event_type = 3,
                        'remove', if(f.event_type = 2, f.old_value, null),
                        'add', f.new_value
                    )
                )
            else filter(
                cast(array(
                    {%- for column in layout.data_columns %}
                    named_struct(
                        'name', {{ afterimage._literal(column.name) }},
                        'type', '{{ "octet" if column.type == "binary" else "string" }}',
                        'remove_all', true,
                        'remove', cast(null as string),
                        'add',
                        {{ afterimage._netiq_as_logged('image.' ~ afterimage._quote(column.name), column.type) }}
                    ){{ ',' if not loop.last }}
                    {%- endfor %}
                ) as array<struct<name: string, type: string, remove_all: boolean, remove: string, `add`: string>>),
                a -> changed_columns is null or array_contains(changed_columns, a.name)
            )
        end as attributes

    from described
    where reject_reason is null

),

written as (

    select
        *,
        xds_document(to_json(named_struct(
            'event', event,
            'class_name', {{ afterimage._literal(table) }},
            'association', association,
            'attributes', attributes
        ))) as xds

    from attributed

)

select
    identity as change_id,
    place as change_seq,
    event,
    association,
    xds.document,
    xds.error as reject_reason,
    changed_at,
    perpetrator,
    source_rows

from written
{%- endmacro -%}
