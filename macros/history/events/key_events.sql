{#- What happened to each key, in order: the CTEs `events` and `states`, from which history and audit are built.

    `events` has one row for each thing that happened to a key: a change of its own, its departure (`key_change`: an
    update gave the row another key) and each truncation of the table while it may have lived. `states` adds whether the
    key lived just before (`was_alive`), what its row looks like after (`state`, with absent columns filled), and
    `valid_at`, the running maximum of the change times. `ensuing_change_seq` and its like are those of the key's next
    event that has an effect.

    Args: changes (a relation, or SQL for a FROM clause), unique_key, columns (each {name, type}), load_valid_from, and `rebuilt`. With
    `rebuilt`, an incremental run of the history materialization rebuilds only some keys, each from a place on; what the
    history knows of a key before that place replaces its earlier events (`is_known`).

    Two more arguments skip needless work: `facts` (see _facts; none if nothing is known), and `ends_have_state=false`
    for callers that do not use the `state` of an end.
    With `names_user`, events have the stream's `changed_by`. `of_keys` is a query; events that touch none of its
    keys are left out. -#}
{%- macro _key_events(
    changes, unique_key, columns, load_valid_from, rebuilt=none, facts=none, ends_have_state=true, names_user=false,
    of_keys=none
) -%}
{%- set types = afterimage._column_types(columns) -%}
{%- set columns = columns | map(attribute='name') | list -%}
{%- set plan = afterimage._event_plan(unique_key, types, facts, rebuilt is not none, names_user) -%}
{%- if facts is none -%}
    {%- do afterimage._allow_many_steps() -%}
{%- endif -%}
{%- set keys = plan.key_names -%}
{%- set w = afterimage._event_window(keys) -%}
{%- set state_and_time = afterimage._state_and_time(w, columns, plan, load_valid_from, ends_have_state) -%}
{#- Without these two, no state and no time depends on whether the key lived, so one window is enough. -#}
{%- set in_one_look = not (plan.truncates or ends_have_state) -%}

{{ afterimage._all_events(changes, unique_key, columns, plan, rebuilt, of_keys) }},
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
        -- The event after a row always has an effect. After an end the next effective event is the next row; further
        -- ends do nothing.
        {%- for column in ['change_seq', 'transaction_id', 'changed_at'] %}
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
    where not is_earlier_row
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


{#- The `state` after an event, and the time from which it is valid. -#}
{%- macro _state_and_time(w, columns, plan, load_valid_from, ends_have_state) -%}
{%- set image -%}
    {%- if ends_have_state -%}
if(is_row{{ ' or is_known' if plan.is_rebuilt }}, image, image_before)
    {%- else -%}
image
    {%- endif -%}
{%- endset -%}
{%- set is_unknown = 'coalesce(array_contains(unknown_columns, {name}), false)' -%}
{%- set last_value -%}
last(
                {%- if ends_have_state %}
                if(
                    {{ '(is_row or is_known)' if plan.is_rebuilt else 'is_row' }}
                    and (not was_alive or not {{ is_unknown }} or arrived_by = 'key_change'),
                    struct(image.{column} as value),
                    null
                ),
                {%- else %}
                -- Nothing is carried across an end, or to a row that comes from another key.
                if(
                    is_row and {{ is_unknown }} and not arrived_by <=> 'key_change',
                    null,
                    struct(if(is_row, image.{column}, null) as value)
                ),
                {%- endif %}
                true
            ) over ({{ w }} rows between unbounded preceding and current row).value
{%- endset -%}
{%- if plan.sparse %}
        {{ afterimage._struct(columns, image ~ '.', plan.sparse, last_value) }} as state,
        {%- else %}
        {{ image }} as state,
        {%- endif %}
        -- Clocks are set back and placeholder times occur, and an interval must not end before it begins.
        {{ afterimage._latest_time_so_far(w, load_valid_from, plan) }} as valid_at
{%- endmacro -%}


{#- The latest time so far. A truncation that found no row does not concern the key, but one that the history knows
    does. -#}
{%- macro _latest_time_so_far(w, load_valid_from, plan) -%}
    {%- set time = 'coalesce(changed_at, ' ~ load_valid_from ~ ')' -%}
    {%- if plan.truncates -%}
        {%- set found_row = '(was_alive or is_known)' if plan.is_rebuilt else 'was_alive' -%}
        {%- set time = "if(ended_by = 'truncate' and not " ~ found_row ~ ", null, " ~ time ~ ")" -%}
    {%- endif -%}
    {%- set latest = 'max(' ~ time ~ ') over (' ~ w ~ ' rows between unbounded preceding and current row)' -%}
    {{ return('if(is_known, changed_at, ' ~ latest ~ ')' if plan.is_rebuilt else latest) }}
{%- endmacro -%}


{#- Which steps the events of a stream need:
    - `key_names`: the key's columns between the CTEs; `types`: those of all columns, by name,
    - `sparse`: the columns that may be absent; `respells`: whether `absent_columns` may have other capitals than these,
    - `truncates`, `trades`, `trading`, `carries`: see _facts; `carried`: the table of carried values, if there is one,
    - `events`: the CTE that has all events,
    - `is_rebuilt`: whether some keys are rebuilt from a place on; `names_user`: whether events have changed_by. -#}
{%- macro _event_plan(unique_key, types, facts, is_rebuilt=false, names_user=false) -%}
    {%- set columns = types.keys() | list -%}
    {%- set facts = facts or afterimage._facts(none, truncates=true, trades=true, carries=true) -%}
    {%- set key_names = unique_key | map('lower') | list -%}
    {%- set absent = columns if facts.sparse_columns is none else facts.sparse_columns -%}
    {%- set absent_names = absent | map('lower') | list -%}
    {%- set sparse = [] -%}
    {%- for column in columns if column | lower in absent_names and column | lower not in key_names -%}
        {%- do sparse.append(column) -%}
    {%- endfor -%}
    {%- set other_names = absent | reject('in', columns) | map('lower') | list -%}
    {%- set has_other_names = sparse | map('lower') | select('in', other_names) | list | length > 0 -%}
    {{ return({
        'key_names': afterimage._key_names(unique_key),
        'types': types,
        'sparse': sparse,
        'respells': has_other_names or (facts.sparse_columns is none and sparse | length > 0),
        'truncates': facts.truncates,
        'trades': facts.trades,
        'trading': facts.trading,
        'events': 'classified_events' if facts.trades else 'events',
        'carries': sparse | length > 0 and facts.carries,
        'carried': facts.carried,
        'is_rebuilt': is_rebuilt,
        'names_user': names_user,
    }) }}
{%- endmacro -%}


{#- The order of a key's events, as a window. -#}
{%- macro _event_window(keys) -%}
    {{ return('partition by ' ~ keys | join(', ') ~ ' order by change_seq, event_rank, load_time, change_id') }}
{%- endmacro -%}


{#- The condition that two events of a key are of one transaction; NULL if one has none. `earlier` and `later` are what
    their columns begin with. Sources use ids again: what comes more than an hour later is of another transaction. A
    time that is missing, or runs backward, says nothing. -#}
{%- macro _are_of_one_transaction(earlier, later) -%}
    {{ return(
        '(' ~ later ~ 'transaction_id = ' ~ earlier ~ 'transaction_id and coalesce('
        ~ later ~ 'changed_at <= ' ~ earlier ~ 'changed_at + interval 1 hour, true))'
    ) }}
{%- endmacro -%}


{#- The row before each of the `states`. For an end that is its own state, since ends carry the row along. -#}
{%- macro _previous_state(keys) -%}
    {{ return('if(is_row, lag(state) over (' ~ afterimage._event_window(keys) ~ '), state)') }}
{%- endmacro -%}
