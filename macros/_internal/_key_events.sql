{#- What happened to each key, in order: the CTEs `events` and `states` that history and audit are cut from.

    `events` has one row for each thing that happened to a key: a change of its own, its leaving (`key_change`: an
    update gave the row another key) and each truncation of the table while it may have lived. `states` adds whether
    the key lived just before (`was_alive`), what its row looks like after (`state`, with absent columns filled), and
    `valid_at`, the running maximum of the change times. `ensuing_change_seq` and `ensuing_transaction_id` are those of the
    next event of the key that finds something to do.

    Args: changes (a relation or SQL that stands in FROM), unique_key, columns, load_valid_from, and `recut`, by which
    an incremental run of the history materialization asks for some keys only, each from some place on: what the
    history knows of a key before that place stands in for its earlier events (`is_known`).

    Two more arguments leave out work that a caller knows to be idle: `facts` (which columns are ever absent, whether the
    table was ever truncated, whether rows may take each other's keys, whether rows take columns to another key, and the
    table that has their values, if there is one) and `ends_have_state=false`, where nobody looks at the `state` of an
    end. With `names_user` the events have the stream's `changed_by`; `of_keys`, a query, leaves out what touches none of
    these keys. -#}
{%- macro _key_events(
    changes, unique_key, columns, load_valid_from, recut=none, facts=none, ends_have_state=true, names_user=false,
    of_keys=none
) -%}
{%- set plan = afterimage._event_plan(unique_key, columns, facts, recut is not none, names_user) -%}
{%- if facts is none and execute -%}
    {#- All steps together, on top of the steps of a stream that is a text, take Spark more than its 100 rounds. -#}
    {%- do run_query('set spark.sql.analyzer.maxIterations = 1000') -%}
{%- endif -%}
{%- set keys = plan.key_names -%}
{%- set w = afterimage._event_window(keys) -%}
{%- set state_and_time = afterimage._state_and_time(
    w, columns, plan.sparse, load_valid_from, recut is not none, plan.truncates, ends_have_state
) -%}
{#- Without these two, no state and no time depends on whether the key lived: one window does for all. -#}
{%- set in_one_look = not (plan.truncates or ends_have_state) -%}

{{ afterimage._all_events(changes, unique_key, columns, load_valid_from, plan, recut, of_keys) }},
{%- if plan.carries %}

{{ afterimage._complete_events(plan, columns) }},
{%- endif %}

lives as (

    select
        *,
        {%- if ends_have_state %}
        -- An end that finds a row leaves that row's image behind.
        lag(image) over ({{ w }}) as image_before,
        {%- endif %}
        coalesce(lag(is_row) over ({{ w }}), false) as was_alive,
        -- What follows a row always finds something to do; behind an end that is the next row, for further ends do not.
        {%- for column in ['change_seq', 'transaction_id'] %}
        if(
            is_row,
            lead({{ column }}) over ({{ w }}),
            lead(if(is_row, struct({{ column }} as value), null)) ignore nulls over ({{ w }}).value
        ) as ensuing_{{ column }}{{ ',' if not loop.last or in_one_look }}
        {%- endfor %}
        {%- if in_one_look %}
        {{ state_and_time }}
        {%- endif %}

    from {{ 'complete_events' if plan.carries else plan.events }}
    {%- if plan.trades and not plan.carries %}
    where not is_of_an_earlier_row
    {%- endif %}

),

states as (

    select
        *
        {%- if not in_one_look %},
        {{ state_and_time }}
        {%- endif %}

    from lives

)
{%- endmacro -%}

{#- What a caller's `facts` come to: the key's names, the columns that may be absent, and which steps there are. -#}
{%- macro _event_plan(unique_key, columns, facts, is_recut=false, names_user=false) -%}
    {%- set key_names = unique_key | map('lower') | list -%}
    {%- set sparse = [] -%}
    {%- for column in columns if facts is none or column in facts.sparse_columns -%}
        {%- if column | lower not in key_names -%}
            {%- do sparse.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set trades = facts is none or facts.trades -%}
    {{ return({
        'key_names': afterimage._key_names(unique_key),
        'sparse': sparse,
        'truncates': facts is none or facts.truncates,
        'trades': trades,
        'events': 'judged_events' if trades else 'events',
        'carries': sparse | length > 0 and (facts is none or facts.carries),
        'brought': none if facts is none else facts.get('brought'),
        'is_recut': is_recut,
        'names_user': names_user,
    }) }}
{%- endmacro -%}


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


{#- The `state` that an event leaves, and the time it is valid at. -#}
{%- macro _state_and_time(w, columns, sparse, load_valid_from, is_recut, truncates, ends_have_state) -%}
{%- set image -%}
    {%- if ends_have_state -%}
if(is_row{{ ' or is_known' if is_recut }}, image, image_before)
    {%- else -%}
image
    {%- endif -%}
{%- endset -%}
{%- if sparse %}
        named_struct(
            {%- for column in columns %}
            {%- set name = afterimage._quote(column) %}
            {{ afterimage._literal(column) }},
            {%- if column in sparse %}
            {%- set literal = afterimage._literal(column) %}
            {%- set is_unknown = 'coalesce(array_contains(unknown_columns, ' ~ literal ~ '), false)' %}
            last(
                {%- if ends_have_state %}
                if(
                    {{ '(is_row or is_known)' if is_recut else 'is_row' }}
                    and (not was_alive or not {{ is_unknown }} or arrived_by = 'key_change'),
                    struct(image.{{ name }} as value),
                    null
                ),
                {%- else %}
                -- Nothing is carried across an end, or to a row that comes from another key.
                if(
                    is_row and {{ is_unknown }} and not arrived_by <=> 'key_change',
                    null,
                    struct(if(is_row, image.{{ name }}, null) as value)
                ),
                {%- endif %}
                true
            ) over ({{ w }} rows between unbounded preceding and current row).value
            {%- else %}
            {{ image }}.{{ name }}
            {%- endif %}
            {%- if not loop.last %},{% endif %}
            {%- endfor %}
        ) as state,
        {%- else %}
        {{ image }} as state,
        {%- endif %}
        -- Clocks are set back and placeholder times occur: an interval must not end before it begins.
        {{ afterimage._running_time(w, load_valid_from, truncates, is_recut) }} as valid_at
{%- endmacro -%}


{#- The row that stood before each of the `states`; for an end that is the state itself, which ends carry along. -#}
{%- macro _previous_state(keys) -%}
    {{ return('if(is_row, lag(state) over (' ~ afterimage._event_window(keys) ~ '), state)') }}
{%- endmacro -%}


{#- The order of a key's events, as a window. -#}
{%- macro _event_window(keys) -%}
    {{ return('partition by ' ~ keys | join(', ') ~ ' order by change_seq, event_rank, load_time, change_id') }}
{%- endmacro -%}


{#- The latest time so far. A truncation that found no row was nothing to the key, but what the history knows was. -#}
{%- macro _running_time(w, load_valid_from, truncates, is_recut) -%}
    {%- set time = 'coalesce(changed_at, ' ~ load_valid_from ~ ')' -%}
    {%- if truncates -%}
        {%- set found_a_row = '(was_alive or is_known)' if is_recut else 'was_alive' -%}
        {%- set time = "if(ended_by = 'truncate' and not " ~ found_a_row ~ ", null, " ~ time ~ ")" -%}
    {%- endif -%}
    {%- set latest = 'max(' ~ time ~ ') over (' ~ w ~ ' rows between unbounded preceding and current row)' -%}
    {{ return('if(is_known, changed_at, ' ~ latest ~ ')' if is_recut else latest) }}
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


{#- The names that the key's columns bear between the CTEs, so that no data column's name is in the way. -#}
{%- macro _key_names(unique_key) -%}
    {%- set names = [] -%}
    {%- for key in unique_key -%}
        {%- do names.append('_key_' ~ loop.index) -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro -%}


{#- A row's key, to be looked for in a query. -#}
{%- macro _key_of(image, unique_key) -%}
    {{ return('(' ~ afterimage._quoted(unique_key, image ~ '.') | join(', ') ~ ')') }}
{%- endmacro -%}


{#- The condition that a change gave its row another key. -#}
{%- macro _changes_the_key(unique_key) -%}
    {{ return(
        "operation = 'update' and `before` is not null and not ("
        ~ afterimage._same_columns('`before`', '`after`', unique_key) ~ ')'
    ) }}
{%- endmacro -%}


{#- The data columns of a change stream, the fields of `after`: a list of {name, type}, the type unknown where the
    caller names the columns. An error if the stream lacks what each reader of it needs, or the columns `needed`. -#}
{%- macro _stream_columns(macro_name, changes, columns=none, needed=[]) -%}
    {%- set found = [] -%}
    {%- if columns is not none -%}
        {%- for column in columns -%}
            {%- do found.append({'name': column, 'type': none}) -%}
        {%- endfor -%}
        {{ return(found) }}
    {%- endif -%}
    {%- set stream = changes if changes is string else afterimage._stored_relation(changes) -%}
    {%- do afterimage._check_contract(macro_name, stream, needed) -%}
    {#- dbt's own way reads the types off a result, and over Thrift a result does not tell them. -#}
    {%- for column in run_query('describe query select `after`.* from ' ~ stream ~ ' as changes') -%}
        {%- do found.append({'name': column['col_name'], 'type': column['data_type'] | lower}) -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro -%}


{#- Whether a stream says who made a change. One's own may leave that out. -#}
{%- macro _names_user(changes) -%}
    {%- set stream = changes if changes is string else afterimage._stored_relation(changes) -%}
    {%- set found = [] -%}
    {%- for column in run_query('describe query select * from ' ~ stream ~ ' as changes') -%}
        {%- do found.append(column['col_name'] | lower) -%}
    {%- endfor -%}
    {{ return('changed_by' in found) }}
{%- endmacro -%}


{#- An error if a stream is none: most likely a raw table that has not been through its source macro. -#}
{%- macro _check_contract(macro_name, stream, needed) -%}
    {%- set found = {} -%}
    {%- for column in run_query('describe query select * from ' ~ stream ~ ' as changes') -%}
        {%- do found.update({column['col_name'] | lower: column['data_type'] | lower}) -%}
    {%- endfor -%}
    {%- set missing = [] -%}
    {%- for name in [
        'change_id', 'change_seq', 'operation', 'before', 'after', 'absent_columns', 'changed_at', 'transaction_id',
        'reject_reason'
    ] + needed -%}
        {%- if name not in found or (name in ['before', 'after'] and not found[name].startswith('struct<')) -%}
            {%- do missing.append(name) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": this is no change stream; it lacks " ~ missing ~ " (`before` and `after` are structs). A raw "
            ~ "table goes through the macro of its source system first. Got: " ~ found.keys() | list
        ) -%}
    {%- endif -%}
{%- endmacro -%}
