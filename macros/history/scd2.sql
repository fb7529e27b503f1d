{#- A change stream -> its history, one row a version. Arguments: macros/history/_history.yml. -#}
{%- macro scd2(
    changes,
    unique_key,
    track_columns=none,
    ignore_columns=none,
    overwrite_columns=none,
    grain='change',
    deletes='close',
    meta_column_names=none,
    load_valid_from=none,
    columns=none
) -%}
    {%- do afterimage._check_history_options(
        'scd2', unique_key, track_columns, ignore_columns, overwrite_columns, grain, deletes, meta_column_names
    ) -%}
    {%- if not execute -%}
        {{ return('select 1 as parsed') }}
    {%- endif -%}
    {%- set columns = afterimage._stream_columns(changes, columns) | map(attribute='name') | list -%}
    {%- for argument, names in {
        'unique_key': unique_key,
        'track_columns': track_columns,
        'ignore_columns': ignore_columns,
        'overwrite_columns': overwrite_columns,
    }.items() -%}
        {%- do afterimage._check_known('scd2', argument, names, columns) -%}
    {%- endfor -%}
    {%- set meta = afterimage._meta_columns('scd2', meta_column_names, columns) -%}
    {%- set keys = afterimage._key_names(unique_key) -%}
    {%- set untracked = (unique_key + (ignore_columns or []) + (overwrite_columns or [])) | map('lower') | list -%}
    {%- set tracked = [] -%}
    {%- for column in track_columns or columns -%}
        {%- if column | lower not in untracked -%}
            {%- do tracked.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set overwritten = (overwrite_columns or []) | map('lower') | list -%}
    {%- set load_valid_from -%}
timestamp {{ afterimage._literal((load_valid_from or var('afterimage_load_valid_from')) | string) }}
    {%- endset -%}
    {%- set w -%}
partition by {{ keys | join(', ') }} order by change_seq, event_rank, load_time, change_id
    {%- endset -%}

with

{{ afterimage._key_events(changes, unique_key, columns, load_valid_from) }},

-- An end that finds no row, such as a delete of an unknown key, changes nothing.
effective as (

    select
        *,
        {%- if overwrite_columns %}
        last(if(is_row, state, null), true) over (
            {{ w }} rows between unbounded preceding and unbounded following
        ) as last_state,
        {%- endif %}
        not coalesce(
            lead(change_seq) over ({{ w }}) = change_seq
            {%- if grain == 'transaction' %}
            or lead(transaction_id) over ({{ w }}) = transaction_id
            {%- endif %},
            false
        ) as is_outcome

    from states
    where is_row or was_alive

),

-- Of events that are one by change_seq (or by transaction) the outcome counts, held against the outcome before.
outcomes as (

    select
        *,
        coalesce(lag(is_row) over ({{ w }}), false) as lived_before,
        {% if tracked -%}
        {{ afterimage._struct(tracked, 'state.') }} <=> lag({{ afterimage._struct(tracked, 'state.') }}) over ({{ w }})
        {%- else -%}
        true
        {%- endif %} as is_same

    from effective
    where is_outcome

),

boundaries as (

    select
        *,
        lead(valid_at) over ({{ w }}) as next_valid_at,
        lead(change_seq) over ({{ w }}) as next_change_seq,
        lead(coalesce(ended_by, 'update')) over ({{ w }}) as next_cause,
        count_if({{ 'is_row' if deletes == 'close' else 'true' }}) over (
            {{ w }} rows between unbounded preceding and current row
        ) as version_number

    from outcomes
    where (is_row and not (lived_before and is_same)) or (not is_row and lived_before)

)

select
    {%- for column in columns %}
    {{ 'last_state' if column | lower in overwritten else 'state' }}.{{ afterimage._quote(column) }} as {{ afterimage._quote(column) }},
    {%- endfor %}
    valid_at as {{ meta.valid_from }},
    next_valid_at as {{ meta.valid_to }},
    change_seq as {{ meta.valid_from_seq }},
    next_change_seq as {{ meta.valid_to_seq }},
    next_change_seq is null as {{ meta.is_current }},
    not is_row as {{ meta.is_deleted }},
    cast(version_number as int) as {{ meta.version }},
    coalesce(ended_by, operation) as {{ meta.operation }},
    next_cause as {{ meta.closed_by }},
    transaction_id as {{ meta.transaction_id }},
    md5({{ afterimage._unambiguous_text(keys + ['change_seq']) }}) as {{ meta.history_id }}

from boundaries
{%- if deletes == 'close' %}
where is_row
{%- endif %}
{%- endmacro -%}
