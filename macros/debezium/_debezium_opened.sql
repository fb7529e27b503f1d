{#- A query over the landed rows, `<rows>`, that opens the messages of a schema registry. It adds
    - `afterimage_value`: the message as JSON. Bytes that cannot be read are hex digits, which no JSON is. They do not
      depend on the schema, which may come later,
    - `afterimage_key`: the key as text, and `afterimage_key_row`: the key as JSON,
    - `afterimage_unread`: why the message cannot be read. -#}
{%- macro _debezium_opened(value, key, schemas) -%}
{%- set known_schemas -%}
select /*+ broadcast */
                try_cast(id as bigint) as registered_id,
                max(`schema`) as registered_schema

            from {{ schemas }}
            where `schema` is not null
            group by 1
{%- endset -%}
(
    select
        *,
        if(
            afterimage_value_id is null and afterimage_missing_id is null,
            {{ afterimage._valid_text(value.sql) }},
            coalesce(afterimage_value_message.message, hex({{ value.sql }}))
        ) as afterimage_value,
        if(afterimage_key_id is null, {{ afterimage._valid_text(key.sql) }}, hex({{ key.sql }})) as afterimage_key,
        if(afterimage_key_id is null, {{ afterimage._valid_text(key.sql) }}, afterimage_key_message.message) as afterimage_key_row,
        coalesce(
            concat({{ afterimage._debezium_no_schema() }}, afterimage_missing_id),
            concat('not an Avro message: ', afterimage_value_message.error)
        ) as afterimage_unread

    from (
        select
            landed.*,
            coalesce(
                if(value_schemas.registered_id is null, afterimage_value_id, null),
                if(key_schemas.registered_id is null, afterimage_key_id, null)
            ) as afterimage_missing_id,
            decode_registry_message(
                {{ value.sql }},
                if(afterimage_key_id is null or key_schemas.registered_id is not null, value_schemas.registered_schema, null)
            ) as afterimage_value_message,
            decode_registry_message({{ key.sql }}, key_schemas.registered_schema) as afterimage_key_message

        from (
            select
                *,
                {{ afterimage._debezium_schema_id(value) }} as afterimage_value_id,
                {{ afterimage._debezium_schema_id(key) }} as afterimage_key_id

            from <rows>
        ) as landed
        left outer join (
            {{ known_schemas }}
        ) as value_schemas
            on landed.afterimage_value_id = value_schemas.registered_id
        left outer join (
            {{ known_schemas }}
        ) as key_schemas
            on landed.afterimage_key_id = key_schemas.registered_id
    ) as decoded
)
{%- endmacro -%}


{#- The id in the frame of an Avro message: a zero byte, the id in four bytes, the message. NULL for other bytes. -#}
{%- macro _debezium_schema_id(column) -%}
    {%- if column.type != 'binary' -%}
        {{ return('cast(null as bigint)') }}
    {%- endif -%}
    {{ return(
        'if(length(' ~ column.sql ~ ') >= 5 and startswith(' ~ column.sql ~ ", X'00'), cast(conv(hex(substring("
        ~ column.sql ~ ', 2, 4)), 16, 10) as bigint), null)'
    ) }}
{%- endmacro -%}
