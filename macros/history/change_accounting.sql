{#- A change stream -> what became of each change: one row per bucket and reason, and one with the total. Arguments:
    macros/history/_history.yml. -#}
{%- macro change_accounting(changes, unique_key, landed=none) -%}
    {%- do afterimage._check_names('change_accounting', 'unique_key', unique_key, required=true) -%}
    {%- if afterimage._needs_placeholder([changes]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set typed_columns = afterimage._stream_columns('change_accounting', changes) -%}
    {%- set columns = typed_columns | map(attribute='name') | list -%}
    {%- do afterimage._check_known('change_accounting', 'unique_key', unique_key, columns) -%}
    {%- set values = 'struct(' ~ afterimage._comparable_columns(
        columns, afterimage._column_types(typed_columns), 'state.'
    ) | join(', ') ~ ')' -%}
    {%- set w = afterimage._event_window(afterimage._key_names(unique_key)) -%}
    {%- set known_operations = "('load', 'insert', 'update', 'delete', 'truncate')" -%}
    {%- set counts_rows = afterimage._has_column(changes, 'source_rows') -%}

with

{{ afterimage._key_events(
    changes, unique_key, typed_columns, "timestamp '1900-01-01 00:00:00'",
    facts=afterimage._key_change_facts(changes, unique_key)
) }},

-- What a change did to its own key. If it also ended the row of another key, or a truncate ended many, it still counts
-- once.
effects as (

    select
        change_id,
        case
            when ended_by = 'delete' and not was_alive then 'delete of a row that was not there'
            when
                operation = 'update' and not was_alive
                -- A row that comes from another key existed, under that key.
                and (before_image is null or {{ afterimage._same_columns("before_image", "image", unique_key) }})
                then 'update of a row that was not there'
            when
                is_row and was_alive
                -- A row that comes from another key has changed that, even if it finds one that looks alike.
                and not arrived_by <=> 'key_change'
                and {{ values }} <=> lag({{ values }}) over ({{ w }})
                then 'nothing changed'
            when operation = 'insert' and was_alive then 'insert of a row that was there'
        end as reason,
        coalesce(ended_by, '') in ('key_change', 'truncate') as is_of_another_change

    from states

),

useful_truncates as (

    select distinct change_id
    from states
    where ended_by = 'truncate' and was_alive

),

reasons as (

    select
        stream.operation,
        case
            -- The text after the colon is specific to the row.
            when stream.reject_reason is not null then split(stream.reject_reason, ':')[0]
            when stream.operation = 'truncate' and useful_truncates.change_id is null then 'truncate of a table without rows'
            -- Our staging macros make no such operations; another stream may.
            when stream.operation is null or stream.operation not in {{ known_operations }} then 'unknown operation'
            else effects.reason
        end as reason,
        stream.reject_reason is not null as is_rejected,
        {{ 'stream.source_rows' if counts_rows else '1' }} as source_rows

    from {{ changes }} as stream
    left outer join effects
        on
            stream.change_id = effects.change_id
            and stream.reject_reason is null
            and not effects.is_of_another_change
    left outer join useful_truncates on stream.change_id = useful_truncates.change_id

),

buckets as (

    select
        *,
        case
            when is_rejected then 'rejected'
            when
                reason in (
                    'delete of a row that was not there',
                    'nothing changed',
                    'truncate of a table without rows',
                    'unknown operation'
                )
                then 'without effect'
            else 'applied'
        end as bucket

    from reasons

)

select
    if(grouping(bucket) = 1, 'total', bucket) as bucket,
    operation,
    reason,
    count(*) as changes,
    sum(source_rows) as source_rows

from buckets
group by grouping sets ((bucket, operation, reason), ())
{#- `--empty` and `--sample` make a query of a relation, a unit test a CTE: neither has properties. -#}
{%- set is_table = landed is not none and not modules.re.match('[(]|__dbt__cte__', landed | string) -%}
{%- set missing = afterimage._table_properties(landed).get('afterimage.missing') if is_table else none %}
{%- if missing | int > 0 %}
union all
select
    'missing' as bucket,
    cast(null as string) as operation,
    'the broker had deleted it before it was landed' as reason,
    {{ missing | int }} as changes,
    0 as source_rows
{%- endif %}
{%- endmacro -%}
