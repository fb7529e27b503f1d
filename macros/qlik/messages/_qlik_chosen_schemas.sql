{#- The CTEs `schemas_of_tables` and `addressed`. A message with a mask that names no schema is read by the only one
    that the metadata messages have for its table or, of several, by the newest of the message's time. If the message
    does not name its table either, it is of the only table that they describe. `named` has SQL for what a message
    names.

    `addressed` adds to `opened_messages`:
    - `needs_schema`: the message has a mask and names no schema,
    - `table_schemas`: the schemas that it may have, oldest first; `tables`: the number of tables that these are of,
    - `chosen_schema_id`: the schema chosen of them; `is_newest`: whether that was there by then. -#}
{%- macro _qlik_chosen_schemas(named) -%}
{%- set needs_schema -%}
{{ named.schema_id }} is null
        and nullif(trim(concat_ws('', body.headers.changeMask, body.headers.columnMask)), '') is not null
{%- endset -%}
{%- set header_time = afterimage._qlik_time("nullif(trim(body.headers.`timestamp`), '')") -%}
schemas_of_tables as (

    select
        lower(table_name) as table_key,
        sort_array(collect_list(struct(table_version, published_at, schema_id, schema_name, table_name))) as schemas

    from message_schemas
    where table_name is not null
    group by grouping sets ((lower(table_name)), ())

),

addressed as (

    select
        opened_messages.*,
        {{ needs_schema }} as needs_schema,
        filter(
            schemas_of_tables.schemas, s -> coalesce(lower(s.schema_name) = lower({{ named.schema }}), true)
        ) as table_schemas,
        array_size(array_distinct(
            transform(table_schemas, s -> struct(lower(s.schema_name) as schema_name, lower(s.table_name) as table_name))
        )) as tables,
        -- The task writes both kinds of messages, so Kafka's time of a message says which schemas were there by then.
        coalesce(
            arrival.landed_at,
            if({{ header_time }} >= timestamp '1970-01-02 00:00:00', {{ header_time }}, null),
            {{ afterimage._sequence_time('trim(body.headers.changeSequence)') | indent(12) }}
        ) as written_at,
        filter(table_schemas, s -> coalesce(s.published_at <= written_at, true)) as schemas_by_then,
        array_size(schemas_by_then) > 0 as is_newest,
        if(
            tables = 1,
            if(is_newest, get(schemas_by_then, array_size(schemas_by_then) - 1), get(table_schemas, 0)).schema_id,
            null
        ) as chosen_schema_id

    from opened_messages
    left outer join (select /*+ broadcast */ * from schemas_of_tables) as schemas_of_tables
        on {{ needs_schema }} and lower({{ named.table }}) <=> schemas_of_tables.table_key

)
{%- endmacro -%}
