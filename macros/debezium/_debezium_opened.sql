{#- The CTEs from the landing to `opened`: what each message says, and its row as texts. -#}
{%- macro _debezium_opened(side, landing, layout) -%}
landed as (

    select
        {{ landing.value }} as value,
        {{ landing.key }} as message_key,
        {{ landing.position or 'cast(null as string)' }} as landed_position,
        {{ landing.partition }} as landed_partition,
        {{ landing.headers }} as headers

    from {{ side.rows }}
    {%- if side.condition %}
    where {{ side.condition | indent(8) }}
    {%- endif %}

),

exact as (

    select
        *,
        {{ afterimage._exact_numbers('value') | indent(8) }} as exact_value

    from landed

),

messages as (

    select
        *,
        {{ afterimage._debezium_of_message('exact_value') | indent(8) }} as m

    from exact

),

opened as (

    select
        *,
        case
            when m.op = 'd' and m.is_envelope
                then {{ afterimage._debezium_known('coalesce(m.before, ' ~ afterimage._debezium_payload('message_key') ~ ')', layout) | indent(16) }}
            when m.op is not null then {{ afterimage._debezium_known('m.row', layout) }}
        end as row_values,
        if(m.op = 'u', {{ afterimage._debezium_known('m.before', layout) }}, null) as before_values

    from messages

)
{%- endmacro -%}


{#- Of the values of a row those that the connector knew. -#}
{%- macro _debezium_known(values, layout) -%}
    {%- set text = afterimage._literal(layout.placeholder) -%}
    {{ return(
        'map_filter(' ~ values ~ ', (k, v) -> coalesce(v not in (' ~ text ~ ', base64(cast(' ~ text ~ ' as binary)), '
        ~ 'lower(hex(' ~ text ~ ')), to_json(array(' ~ text ~ '))), true))'
    ) }}
{%- endmacro -%}
