{#- A change stream -> who changed what, one row per changed column. Arguments: macros/history/_history.yml. -#}
{%- macro change_audit(changes, unique_key, meta_column_names=none) -%}
    {%- do afterimage._check_names('change_audit', 'unique_key', unique_key, required=true) -%}
    {%- set meta = afterimage._meta_columns(
        'change_audit', meta_column_names, unique_key, afterimage._audit_columns()
    ) -%}
    {%- if afterimage._needs_placeholder([changes]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set typed_columns = afterimage._stream_columns('change_audit', changes) -%}
    {%- do afterimage._check_known(
        'change_audit', 'unique_key', unique_key, typed_columns | map(attribute='name') | list
    ) -%}
    {{ return(afterimage._audit_rows(
        changes, typed_columns, unique_key, meta, afterimage._load_valid_from(),
        afterimage._key_change_facts(changes, unique_key), afterimage._has_column(changes, 'changed_by')
    )) }}
{%- endmacro -%}


{#- The select of an audit. With `of_keys`, a query for keys, it covers only changes that touch these keys. -#}
{%- macro _audit_rows(changes, typed_columns, unique_key, meta, load_valid_from, facts, names_user, of_keys=none) -%}
    {%- set columns = typed_columns | map(attribute='name') | list -%}
    {%- set keys = afterimage._key_names(unique_key) -%}
    {%- set may_move = facts is none or facts.moves -%}
    {%- set may_trade = facts is none or facts.trades -%}

with

{{ afterimage._key_events(
    changes, unique_key, typed_columns, load_valid_from, facts=facts, names_user=names_user, of_keys=of_keys
) }},

transitions as (

    select
        *,
        {{ afterimage._previous_state(keys) }} as previous_state,
        is_row
        and before_image is not null
        and not ({{ afterimage._each(unique_key, 'before_image.{column} <=> {key}') | join(' and ') }}) as has_moved

    from states

),
{%- set shown = keys + [
    'change_id', 'change_seq', 'operation', 'changed_at', 'transaction_id', 'ended_by', 'is_row', 'was_alive',
    'has_moved', 'unknown_columns', 'before_image', 'state'
] + (['changed_by'] if names_user else []) %}
{%- if may_move and may_trade %}

{{ afterimage._rows_found(keys) }}
{%- endif %}

-- If another row has replaced the deleted row at its key, the delete still shows what its before-image held.
listed_events as (

    select
        {{ shown | join(', ') }},
        if(was_alive, previous_state, null) as row_here

    from transitions
    {%- if may_trade %}
    union all
    select
        {{ shown | join(', ')
            | replace('was_alive, has_moved', 'false as was_alive, false as has_moved')
            | replace('before_image, state', 'before_image, if(true, null, image) as state') }},
        {{ 'row_found' if may_move else 'if(true, null, image)' }} as row_here

    from classified_events
    {%- if may_move %}
    left outer join rows_found
        on change_id = found_by
    {%- endif %}
    where is_earlier_row
    {%- endif %}

),

-- A row that came from another key is compared with the row that left that one. Other events are spread by their keys:
-- a truncation has one change_id for all of them.
shown_events as (

    select
        *,
        {%- if may_move %}
        if(
            has_moved,
            first(if(ended_by = 'key_change', row_here, null), true) over (
                partition by if(
                    has_moved or ended_by = 'key_change',
                    change_id,
                    cast({{ afterimage._hash_of_values(keys) | indent(20) }} as string)
                )
            ),
            row_here
        ) as row_before
        {%- else %}
        if(has_moved, null, row_here) as row_before
        {%- endif %}

    from listed_events

),

compared as (

    select
        *,
        array(
            {%- for column in typed_columns %}
            {%- set name = afterimage._quote(column.name) %}
            {%- set old = 'coalesce(before_image.' ~ name ~ ', row_before.' ~ name ~ ')' %}
            {%- set new = 'if(is_row, state.' ~ name ~ ', null)' %}
            named_struct(
                'column_name', {{ afterimage._literal(column.name) }},
                'old_value', {{ afterimage._as_text(old, column.type) }},
                'new_value', {{ afterimage._as_text(new, column.type) }},
                -- Different values can look alike as text.
                'is_same', {{ afterimage._comparable(old, column.type) }} <=> {{ afterimage._comparable(new, column.type) }}
                -- Values that a row takes with it to a new key have not changed.
                or (
                    has_moved
                    and coalesce(array_contains(unknown_columns, {{ afterimage._literal(column.name) }}), false)
                ),
                'old_value_from', case
                    when before_image.{{ name }} is not null then 'before_image'
                    when row_before is not null then 'version_before'
                end
            ){{ ',' if not loop.last }}
            {%- endfor %}
        ) as comparisons

    from shown_events
    -- A key change is listed under the new key only, with the old key as a changed column. The delete of a row that
    -- was never seen still shows what its before-image held.
    where
        not coalesce(ended_by = 'key_change', false)
        and (is_row or was_alive or (ended_by = 'delete' and before_image is not null))

)

select
    {{ afterimage._each(unique_key, 'compared.{key} as {column}') | join(', ') }},
    {%- for name in ['change_id', 'change_seq', 'operation', 'changed_at', 'transaction_id'] %}
    compared.{{ name }} as {{ meta[name] }},
    {%- endfor %}
    {{ 'compared.changed_by' if names_user else 'cast(null as string)' }} as {{ meta['changed_by'] }},
    {%- for name in ['column_name', 'old_value', 'new_value', 'old_value_from'] %}
    difference.{{ name }} as {{ meta[name] }}{{ ',' if not loop.last }}
    {%- endfor %}

from compared
lateral view explode(filter(comparisons, c -> not c.is_same)) as difference
{%- endmacro -%}


{#- The CTE `rows_found`: the rows that left a key for another after a newcomer had come there, and by which change
    (`found_by`). Such a row is the one that the newcomer found. -#}
{%- macro _rows_found(keys) -%}
rows_found as (

    select
        departure.change_id as found_by,
        max_by(
            if(newcomer.was_alive, newcomer.previous_state, null),
            struct(newcomer.change_seq, newcomer.event_rank, newcomer.change_id)
        ) as row_found

    from classified_events as departure
    inner join transitions as newcomer
        on
            {{ afterimage._each(keys, 'departure.{key} <=> newcomer.{key}') | join(' and ') }}
            and departure.transaction_id = newcomer.transaction_id
            and newcomer.arrived_by is not null
            and struct(newcomer.change_seq, newcomer.event_rank, newcomer.change_id)
            < struct(departure.change_seq, departure.event_rank, departure.change_id)
    where departure.is_earlier_row and departure.ended_by = 'key_change'
    group by departure.change_id

),
{%- endmacro -%}


{#- The columns of an audit, after the key. -#}
{%- macro _audit_columns() -%}
    {{ return([
        'change_id', 'change_seq', 'operation', 'changed_at', 'transaction_id', 'changed_by', 'column_name', 'old_value',
        'new_value', 'old_value_from'
    ]) }}
{%- endmacro -%}
