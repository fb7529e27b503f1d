{#- The CTEs from a stream to all events: `events`, or `judged_events` where rows may take each other's keys. `of_keys`,
    a query, leaves out what touches none of these keys. -#}
{%- macro _all_events(changes, unique_key, columns, load_valid_from, plan, recut=none, of_keys=none) -%}
{%- set keys = plan.key_names -%}
good_changes as (

    select
        change_id,
        change_seq,
        operation,
        `before`,
        `after`,
        absent_columns,
        {{ afterimage._unknown_columns(plan.sparse, columns | length > 30) | indent(8) }} as unknown_columns,
        changed_at,
        transaction_id
        {%- if plan.names_user %},
        cast(changed_by as string) as changed_by
        {%- endif %}

    from {{ changes }} as changes
    where
        reject_reason is null
        {%- if recut %}
        and ({{ recut.slice }})
        {%- endif %}
        {%- if of_keys %}
        and (
            operation = 'truncate'
            or {{ afterimage._key_of('`after`', unique_key) }} in ({{ of_keys }})
            or {{ afterimage._key_of('`before`', unique_key) }} in ({{ of_keys }})
        )
        {%- endif %}

),
{%- if plan.truncates %}

-- One row, and few truncations in it, so every change can look up the next one without a sort of the whole table.
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
        {%- for key in unique_key %}
        {%- set name = afterimage._quote(key) %}
        -- Field by field, here and below: then Spark reads those of the before-image alone that somebody asks for.
        if(operation = 'delete' and `before` is not null, `before`.{{ name }}, `after`.{{ name }}) as {{ keys[loop.index0] }},
        {%- endfor %}
        change_seq,
        array_position(array('load', 'insert', 'update', 'delete'), operation) as event_rank,
        if(operation = 'load', changed_at, null) as load_time,
        change_id,
        operation,
        if(operation = 'delete', 'delete', null) as ended_by,
        operation <> 'delete' as is_row,
        {%- if plan.sparse %}
        named_struct(
            {%- for column in columns %}
            {%- set name = afterimage._quote(column) %}
            {{ afterimage._literal(column) }},
            {%- if column in plan.sparse %}
            if(
                array_contains(absent_columns, {{ afterimage._literal(column) }}),
                `before`.{{ name }},
                `after`.{{ name }}
            )
            {%- else %}
            `after`.{{ name }}
            {%- endif %}
            {%- if not loop.last %},{% endif %}
            {%- endfor %}
        ) as image,
        {%- else %}
        `after` as image,
        {%- endif %}
        unknown_columns,
        case
            when operation = 'insert' then 'insert'
            when {{ afterimage._changes_the_key(unique_key) }} then 'key_change'
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
        {%- for key in unique_key %}
        `before`.{{ afterimage._quote(key) }} as {{ keys[loop.index0] }},
        {%- endfor %}
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
    where {{ afterimage._changes_the_key(unique_key) }}

),
{%- if recut %}

{{ afterimage._recut_events(recut, keys, unique_key, columns, load_valid_from) }}
{%- endif %}
{%- set rows_given = 'recut_events' if recut else 'own_events' %}
{%- if plan.truncates %}

ends_by_truncation as (

    {{ afterimage._ends_by_truncation(rows_given, keys, recut is not none, plan.names_user) | indent(4) }}

),
{%- endif %}

events as (

    select * from {{ rows_given }}
    {%- if not recut %}
    union all
    select * from departures
    {%- endif %}
    {%- if plan.truncates %}
    union all
    select * from ends_by_truncation
    {%- endif %}

)
{%- if plan.trades %},

{{ afterimage._ends_of_earlier_rows(keys) }}
{%- endif %}
{%- endmacro -%}


{#- The absent columns of a change that its before-image does not fill: NULL there may mean "not captured" as well. -#}
{%- macro _unknown_columns(sparse, are_many) -%}
{%- if not sparse -%}
cast(null as array<string>)
{%- else -%}
if(
    size(absent_columns) > 0,
    {%- if are_many %}
    -- What has a lambda Spark does not compile with the rest, and with all of many columns Java would not compile it.
    filter(
        absent_columns,
        name -> case name
            {%- for column in sparse %}
            when {{ afterimage._literal(column) }} then `before`.{{ afterimage._quote(column) }} is null
            {%- endfor %}
            else false
        end
    ),
    {%- else %}
    array(
        {%- for column in sparse %}
        {%- set literal = afterimage._literal(column) %}
        if(
            array_contains(absent_columns, {{ literal }}) and `before`.{{ afterimage._quote(column) }} is null,
            {{ literal }},
            null
        ){{ ',' if not loop.last }}
        {%- endfor %}
    ),
    {%- endif %}
    null
)
{%- endif -%}
{%- endmacro -%}


{#- Every row that a key was given meets the next truncation; where it ended before that, nothing happens then. -#}
{%- macro _ends_by_truncation(rows_given, keys, is_recut, names_user) -%}
select
    {%- for key in keys %}
    {{ key }},
    {%- endfor %}
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
    {%- if names_user %},
    next_truncation.changed_by
    {%- endif %}
    {%- if is_recut %},
    start_seq,
    false as is_known,
    cast(null as int) as version_base
    {%- endif %}

from (
    select
        rows_given.*,
        try_element_at(
            filter(truncations, t -> t.change_seq >= {{ 'greatest(change_seq, start_seq)' if is_recut else 'change_seq' }}), 1
        ) as next_truncation

    from {{ rows_given }} as rows_given
    cross join truncations
    where rows_given.is_row and size(truncations) > 0
) as met
where next_truncation is not null
{%- endmacro -%}


{#- The events of the keys that an incremental run cuts anew, each from its place on, behind what the history knows:
    the version that lived at that place, or the end of the last one. -#}
{%- macro _recut_events(recut, keys, unique_key, columns, load_valid_from) -%}
located_events as (

    select
        given_events.*,
        affected.start_seq,
        given_events.change_seq >= affected.start_seq as is_recut

    from (
        select * from own_events
        union all
        select * from departures
    ) as given_events
    inner join {{ recut.touched }} as affected
        on
            affected.is_key and
            {%- for key in keys %}
            given_events.{{ key }} <=> affected.{{ key }}{{ ' and' if not loop.last }}
            {%- endfor %}

),

-- Of a key that lives at its place the living version, of another the end of the last one.
last_known as (

    select
        {%- for key in keys %}
        {{ key }},
        {%- endfor %}
        start_seq,
        valid_from_seq as change_seq,
        valid_from as changed_at,
        history_id as change_id,
        operation,
        if(is_deleted, operation, null) as ended_by,
        not is_deleted as is_row,
        image,
        transaction_id,
        version - 1 as version_base

    from {{ recut.touched }}
    where is_touched and valid_from_seq < start_seq
    union all
    select
        {%- for key in keys %}
        {{ key }},
        {%- endfor %}
        start_seq,
        max_by(valid_to_seq, version) filter (where not is_touched) as change_seq,
        max_by(valid_to, version) filter (where not is_touched) as changed_at,
        cast(null as string) as change_id,
        cast(null as string) as operation,
        max_by(closed_by, version) filter (where not is_touched) as ended_by,
        false as is_row,
        null as image,
        cast(null as string) as transaction_id,
        max(version) filter (where not is_touched) as version_base

    from {{ recut.touched }}
    where not is_key
    group by {{ keys | join(', ') }}, start_seq
    having bool_or(not is_touched) and not bool_or(is_touched and valid_from_seq < start_seq)

),

recut_events as (

    -- Of what came before the place only the times still matter, for a later change cannot be valid before them.
    select
        {%- for key in keys %}
        {{ key }},
        {%- endfor %}
        if(is_recut, change_seq, '') as change_seq,
        if(is_recut, event_rank, -1) as event_rank,
        load_time,
        change_id,
        operation,
        if(is_recut, ended_by, null) as ended_by,
        is_recut and is_row as is_row,
        if(is_recut, image, null) as image,
        if(is_recut, unknown_columns, null) as unknown_columns,
        if(is_recut, arrived_by, null) as arrived_by,
        if(is_recut, before_image, null) as before_image,
        changed_at,
        transaction_id,
        start_seq,
        false as is_known,
        cast(null as int) as version_base

    from located_events
    union all
    select
        {%- for key in keys %}
        {{ key }},
        {%- endfor %}
        change_seq,
        0 as event_rank,
        cast(null as timestamp) as load_time,
        change_id,
        operation,
        ended_by,
        is_row,
        image,
        cast(null as array<string>) as unknown_columns,
        cast(null as string) as arrived_by,
        if(true, null, image) as before_image,
        changed_at,
        transaction_id,
        start_seq,
        true as is_known,
        version_base

    from last_known

),
{%- endmacro -%}


{#- A row's key, to be looked for in a query. -#}
{%- macro _key_of(image, unique_key) -%}
    {{ return('(' ~ afterimage._quoted(unique_key, image ~ '.') | join(', ') ~ ')') }}
{%- endmacro -%}
