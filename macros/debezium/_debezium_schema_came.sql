{#- A query that returns a row if a schema has come that messages of earlier runs wait for. -#}
{%- macro _debezium_schema_came(schemas) -%}
select 1
from {{ this }} as staged
inner join {{ schemas }} as schemas
    on
        staged.reject_reason = concat({{ afterimage._debezium_no_schema() }}, try_cast(schemas.id as bigint))
        and schemas.`schema` is not null
-- Lets Iceberg skip the files in which no message waits.
where startswith(staged.reject_reason, {{ afterimage._debezium_no_schema() }})
limit 1
{%- endmacro -%}
