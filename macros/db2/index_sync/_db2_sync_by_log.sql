{%- macro _db2_sync_by_log(relation, unique_key, base, time_zone) -%}
    {%- set layout = afterimage._db2_log_layout('index_sync', relation, unique_key, base, none, time_zone) %}
with

{{ afterimage._db2_log_keys(layout, relation, base, time_zone) }}

select
    {{ afterimage._each(layout.unique_key, '{key} as {column}') | join(', ') }},
    if(is_delete, 'delete', 'upsert') as action,
    transform(entries, e -> struct(e.log_time as TIME, e.operation_code as OPERATION)) as covered_rows,
    log_rows as source_rows,
    cast(null as string) as reject_reason

from settled
union all
select
    {{ afterimage._each(layout.unique_key, '{key} as {column}') | join(', ') }},
    cast(null as string) as action,
    array(struct(log_time as TIME, operation_code as OPERATION)) as covered_rows,
    log_rows as source_rows,
    reject_reason

from rejected_rows
{%- endmacro -%}
