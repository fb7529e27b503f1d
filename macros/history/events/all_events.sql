{#- The CTEs from a stream to all events: `events`, or `classified_events` if rows may take each other's keys. `of_keys`
    is a query; events that touch none of its keys are left out. -#}
{%- macro _all_events(changes, unique_key, columns, plan, rebuilt=none, of_keys=none) -%}
{%- set keys = plan.key_names -%}
{%- set absent = afterimage._absent_columns(plan) -%}
good_changes as (

    select
        change_id,
        change_seq,
        operation,
        `before`,
        `after`,
        {{ absent | indent(8) }}{{ ' as absent_columns' if plan.respells }},
        {{ afterimage._unknown_columns(
            absent, plan.sparse, columns | length > 30 or plan.respells
        ) | indent(8) }} as unknown_columns,
        changed_at,
        transaction_id
        {%- if plan.names_user %},
        cast(changed_by as string) as changed_by
        {%- endif %}

    from {{ changes }} as changes
    where
        reject_reason is null
        {%- if rebuilt %}
        and ({{ rebuilt.slice }})
        {%- endif %}
        {%- if of_keys %}
        and (
            operation = 'truncate'
            or {{ afterimage._has_key_of('`after`', unique_key, of_keys) | indent(12) }}
            or {{ afterimage._has_key_of('`before`', unique_key, of_keys) | indent(12) }}
        )
        {%- endif %}

),
{%- if plan.truncates %}

-- One row that holds the few truncations, so every change can look up the next one without sorting the whole table.
truncations as (

    select
        array_sort(collect_set(struct(
            change_seq, change_id, changed_at, transaction_id{{ ', changed_by' if plan.names_user }}
        ))) as truncations

    from good_changes
    where operation = 'truncate'

),
{%- endif %}

own_events as (

    select
        -- Field by field, here and below, so that Spark reads only the before-image fields that are used.
        {{ afterimage._each(
            unique_key, "if(operation = 'delete' and `before` is not null, `before`.{column}, `after`.{column}) as {key}"
        ) | join(',\n        ') }},
        change_seq,
        array_position(array('load', 'insert', 'update', 'delete'), operation) as event_rank,
        if(operation = 'load', changed_at, null) as load_time,
        change_id,
        operation,
        if(operation = 'delete', 'delete', null) as ended_by,
        operation <> 'delete' as is_row,
        {%- if plan.sparse %}
        {{ afterimage._struct(
            columns, '`after`.', plan.sparse, 'if(array_contains(absent_columns, {name}), `before`.{column}, `after`.{column})'
        ) }} as image,
        {%- else %}
        `after` as image,
        {%- endif %}
        unknown_columns,
        case
            when operation = 'insert' then 'insert'
            when {{ afterimage._changes_key(unique_key) }} then 'key_change'
        end as arrived_by,
        `before` as before_image,
        changed_at,
        transaction_id
        {%- if plan.names_user %},
        changed_by
        {%- endif %}

    from good_changes
    where operation in ('load', 'insert', 'update', 'delete')

),

-- An update that changed the key: the row leaves its old key.
departures as (

    select
        {{ afterimage._each(unique_key, '`before`.{column} as {key}') | join(', ') }},
        change_seq,
        0 as event_rank,
        cast(null as timestamp) as load_time,
        change_id,
        operation,
        'key_change' as ended_by,
        false as is_row,
        if(true, null, `after`) as image,
        {{ 'unknown_columns' if plan.carries else 'cast(null as array<string>) as unknown_columns' }},
        cast(null as string) as arrived_by,
        `before` as before_image,
        changed_at,
        transaction_id
        {%- if plan.names_user %},
        changed_by
        {%- endif %}

    from good_changes
    where {{ afterimage._changes_key(unique_key) }}

),
{%- if rebuilt %}

{{ afterimage._rebuilt_events(rebuilt, keys, unique_key) }}
{%- endif %}
{%- set rows_given = 'rebuilt_events' if rebuilt else 'own_events' %}
{%- if plan.truncates %}

ends_by_truncation as (

    {{ afterimage._ends_by_truncation(rows_given, plan) | indent(4) }}

),
{%- endif %}

events as (

    select * from {{ rows_given }}
    {%- if not rebuilt %}
    union all
    select * from departures
    {%- endif %}
    {%- if plan.truncates %}
    union all
    select * from ends_by_truncation
    {%- endif %}

)
{%- if plan.trades %},

{{ afterimage._ends_of_earlier_rows(keys, plan.types, plan.trading) }}
{%- endif %}
{%- endmacro -%}


{#- The condition that a row has one of the keys of a query. A part of a key may be NULL. -#}
{%- macro _has_key_of(image, unique_key, of_keys) -%}
exists (
    select 1
    from ({{ of_keys }}) as wanted({{ afterimage._key_names(unique_key) | join(', ') }})
    where {{ afterimage._each(unique_key, 'wanted.{key} <=> ' ~ image ~ '.{column}') | join(' and ') }}
)
{%- endmacro -%}


{#- `absent_columns`, its names spelled as the columns are. Of united staging models each has the spelling of its own
    table there, while the images have that of the first one. -#}
{%- macro _absent_columns(plan) -%}
{%- if plan.respells -%}
transform(
    absent_columns,
    name -> case lower(name)
        {{ afterimage._each(plan.sparse, 'when lower({name}) then {name}') | join('\n        ') }}
        else name
    end
)
{%- else -%}
absent_columns
{%- endif -%}
{%- endmacro -%}


{#- The `absent` columns of a change that its before-image does not fill: NULL there may also mean "not captured". -#}
{%- macro _unknown_columns(absent, sparse, uses_lambda) -%}
{%- if not sparse -%}
cast(null as array<string>)
{%- else -%}
if(
    size(absent_columns) > 0,
    {%- if uses_lambda %}
    -- Spark leaves an expression with a lambda out of the generated code. With one condition for each of many columns,
    -- Java could not compile that code.
    filter(
        {{ absent | indent(8) }},
        name -> case name
            {{ afterimage._each(sparse, 'when {name} then `before`.{column} is null') | join('\n            ') }}
            else false
        end
    ),
    {%- else %}
    array(
        {{ afterimage._each(
            sparse, 'if(array_contains(absent_columns, {name}) and `before`.{column} is null, {name}, null)'
        ) | join(',\n        ') }}
    ),
    {%- endif %}
    null
)
{%- endif -%}
{%- endmacro -%}


{#- Every row that a key was given meets the next truncation. If it ended earlier, the truncation does nothing to
    it. -#}
{%- macro _ends_by_truncation(rows_given, plan) -%}
{%- set start = 'greatest(change_seq, start_seq)' if plan.is_rebuilt else 'change_seq' -%}
select
    {{ plan.key_names | join(', ') }},
    next_truncation.change_seq,
    9 as event_rank,
    cast(null as timestamp) as load_time,
    next_truncation.change_id,
    'truncate' as operation,
    'truncate' as ended_by,
    false as is_row,
    if(true, null, image) as image,
    cast(null as array<string>) as unknown_columns,
    cast(null as string) as arrived_by,
    if(true, null, before_image) as before_image,
    next_truncation.changed_at,
    next_truncation.transaction_id
    {%- if plan.names_user %},
    next_truncation.changed_by
    {%- endif %}
    {%- if plan.is_rebuilt %},
    start_seq,
    false as is_known,
    cast(null as int) as version_base
    {%- endif %}

from (
    select
        rows_given.*,
        try_element_at(
            filter(truncations, t -> t.change_seq >= {{ start }}), 1
        ) as next_truncation

    from {{ rows_given }} as rows_given
    cross join truncations
    where rows_given.is_row and size(truncations) > 0
) as met
where next_truncation is not null
{%- endmacro -%}
