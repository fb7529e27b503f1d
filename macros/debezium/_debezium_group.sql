{#- A text shared by the messages that must be read together: the copies of a change and all that has its place, or all
    loads of a key. -#}
{%- macro _debezium_group(value, key, position, keys) -%}
case
    when m.payload is null then concat('no-row-', md5(coalesce({{ value }}, {{ key }}, '')))
    when {{ afterimage._debezium_is_load() }} and not {{ afterimage._debezium_is_incremental() }}
        then concat('load-', md5(to_json(array({{ afterimage._debezium_keys('m.row', keys) }}))))
    else coalesce(
        nullif({{ afterimage._debezium_change_place() | indent(8) }}, ''),
        concat('unplaced-', coalesce({{ position or 'cast(null as string)' }}, md5({{ value }})))
    )
end
{%- endmacro -%}
