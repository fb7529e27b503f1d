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
        afterimage._key_change_facts(changes, unique_key), afterimage._has_user(changes)
    )) }}
{%- endmacro -%}


{#- The select of an audit. With `of_keys`, a query for keys, it covers only changes that touch these keys. -#}
{%- macro _audit_rows(changes, typed_columns, unique_key, meta, load_valid_from, facts, names_user, of_keys=none) -%}
    {%- set columns = typed_columns | map(attribute='name') | list -%}
    {%- set keys = afterimage._key_names(unique_key) -%}

with

{{ afterimage._key_events(
    changes, unique_key, typed_columns, load_valid_from, facts=facts, names_user=names_user, of_keys=of_keys
) }},

transitions as (

    select
        *,
        {{ afterimage._previous_state(keys) }} as previous_state,
        -- A row that came from another key is compared with its own before-image only.
        is_row
        and before_image is not null
        and not ({{ afterimage._each(unique_key, 'before_image.{column} <=> {key}') | join(' and ') }}) as has_moved

    from states

),
{%- set shown = keys + [
    'change_id', 'change_seq', 'operation', 'changed_at', 'transaction_id', 'ended_by', 'is_row', 'was_alive',
    'has_moved', 'unknown_columns', 'before_image', 'state', 'previous_state'
] + (['changed_by'] if names_user else []) %}

-- If another row has replaced the deleted row at its key, the delete still shows what its before-image held.
shown_events as (

    select {{ shown | join(', ') }}
    from transitions
    {%- if facts is none or facts.trades %}
    union all
    select {{ shown | join(', ')
        | replace('was_alive, has_moved', 'false as was_alive, false as has_moved')
        | replace('state, previous_state', 'if(true, null, image) as state, if(true, null, image) as previous_state') }}
    from classified_events
    where is_earlier_row and ended_by = 'delete'
    {%- endif %}

),

compared as (

    select
        *,
        array(
            {%- for column in typed_columns %}
            {%- set name = afterimage._quote(column.name) %}
            {%- set old =
                'coalesce(before_image.' ~ name ~ ', if(was_alive and not has_moved, previous_state.' ~ name ~ ', null))'
            %}
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
                    when was_alive and not has_moved then 'version_before'
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


{#- The columns of an audit, after the key. -#}
{%- macro _audit_columns() -%}
    {{ return([
        'change_id', 'change_seq', 'operation', 'changed_at', 'transaction_id', 'changed_by', 'column_name', 'old_value',
        'new_value', 'old_value_from'
    ]) }}
{%- endmacro -%}


{#- Whether a stream says who made a change. A stream from elsewhere may leave that out. -#}
{%- macro _has_user(changes) -%}
    {%- set stream = changes if changes is string else afterimage._stored_relation(changes) -%}
    {%- set names = run_query('describe query select * from ' ~ stream ~ ' as changes').columns[0].values() -%}
    {{ return('changed_by' in names | map('lower')) }}
{%- endmacro -%}
