{#- A change stream -> its history, one row per version. Arguments: macros/history/_history.yml. -#}
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
    columns=none,
    follow_keys=true,
    valid_to_current=none
) -%}
    {%- set options = afterimage._history_options(
        'scd2', unique_key, track_columns, ignore_columns, overwrite_columns, grain, deletes, meta_column_names,
        load_valid_from, valid_to_current
    ) -%}
    {%- if afterimage._needs_placeholder([changes] if columns is none else []) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set typed_columns = afterimage._stream_columns('scd2', changes, columns) -%}
    {%- do afterimage._check_choice('scd2', 'follow_keys', follow_keys, [true, false]) -%}
    {%- set facts = afterimage._key_change_facts(changes, unique_key) if columns is none else none -%}
    {%- if not follow_keys -%}
        {%- set facts = afterimage._facts(none, truncates=true, trades=false, carries=false) -%}
    {%- endif -%}
    {{ return(afterimage._versions(changes, typed_columns, options, facts=facts)) }}
{%- endmacro -%}


{#- The select that builds versions: all of them, or with `rebuilt` (see _rebuild_scope) those of some keys from a place
    on. -#}
{%- macro _versions(changes, typed_columns, options, rebuilt=none, facts=none) -%}
    {%- set columns = typed_columns | map(attribute='name') | list -%}
    {%- set plan = afterimage._history_plan(options, columns) -%}
    {%- set types = afterimage._column_types(typed_columns) -%}
    {%- set tracked = afterimage._comparable_columns(plan.tracked, types, 'state.') -%}
    {#- An existing struct is compared whole. The key inside it is the same in all events that are compared. -#}
    {%- set is_whole = tracked == afterimage._quoted(plan.tracked, 'state.') and not plan.untracked -%}
    {%- set compared = 'state' if is_whole else 'struct(' ~ tracked | join(', ') ~ ')' -%}
    {%- set meta = plan.meta -%}
    {%- set keys = afterimage._key_names(options.unique_key) -%}
    {%- set w = afterimage._event_window(keys) -%}
    {#- Each key has one outcome per change_seq. Without the tie-breakers the rows have less to carry. -#}
    {%- set w_outcome = 'partition by ' ~ keys | join(', ') ~ ' order by change_seq' -%}
    {%- set open_end = options.valid_to_current -%}
    {%- set valid_to = 'coalesce(next_valid_at, ' ~ open_end ~ ')' if open_end else 'next_valid_at' -%}
    {%- set output = 'is_row' if options.deletes == 'close' else 'true' -%}

with

{{ afterimage._key_events(
    changes, options.unique_key, typed_columns, options.load_valid_from, rebuilt, facts,
    ends_have_state=options.deletes == 'version'
) }},

-- An end that finds no row, such as a delete of an unknown key, changes nothing.
effective as (

    select
        *,
        {%- if plan.overwritten %}
        last(if(is_row, state, null), true) over (
            {{ w }} rows between unbounded preceding and unbounded following
        ) as last_state,
        {%- endif %}
        not coalesce(
            ensuing_change_seq = change_seq
            {%- if options.grain == 'transaction' %}
            or {{ afterimage._are_of_one_transaction('', 'ensuing_') }}
            {%- endif %},
            false
        ) as is_outcome

    from states
    where is_row or was_alive{{ ' or is_known' if rebuilt }}

),

-- Events with one change_seq (or of one transaction) count as one: their outcome, compared with the outcome before.
outcomes as (

    select
        *,
        coalesce(lag(is_row) over ({{ w_outcome }}), false) as lived_before,
        {% if tracked -%}
        {{ compared }} <=> lag({{ compared }}) over ({{ w_outcome }})
        {%- else -%}
        true
        {%- endif %} as is_same

    from effective
    where is_outcome

),

boundaries as (

    select
        *,
        lead(valid_at) over ({{ w_outcome }}) as next_valid_at,
        lead(change_seq) over ({{ w_outcome }}) as next_change_seq,
        lead(coalesce(ended_by, 'update')) over ({{ w_outcome }}) as next_cause,
        count_if({{ output }}) over ({{ w_outcome }} rows between unbounded preceding and current row)
        {%- if rebuilt %}
        + coalesce(first(version_base) over ({{ w_outcome }} rows between unbounded preceding and current row), 0)
        {%- endif %} as version_number

    from outcomes
    where
        (is_row and not (lived_before and is_same))
        or (not is_row and lived_before)
        {%- if rebuilt %}
        or is_known
        {%- endif %}

)

select
    {%- for column in columns %}
    {%- set name = afterimage._quote(column) %}
    {{ 'last_state' if column | lower in plan.overwritten else 'state' }}.{{ name }} as {{ name }},
    {%- endfor %}
    valid_at as {{ meta.valid_from }},
    {{ valid_to }} as {{ meta.valid_to }},
    change_seq as {{ meta.valid_from_seq }},
    next_change_seq as {{ meta.valid_to_seq }},
    next_change_seq is null as {{ meta.is_current }},
    not is_row as {{ meta.is_deleted }},
    cast(version_number as int) as {{ meta.version }},
    coalesce(ended_by, operation) as {{ meta.operation }},
    next_cause as {{ meta.closed_by }},
    transaction_id as {{ meta.transaction_id }},
    coalesce(
        {{ 'if(is_known, change_id, null),' if rebuilt }}
        md5({{ afterimage._unambiguous_text(keys + ['change_seq']) }})
    ) as {{ meta.history_id }}
    {%- if rebuilt %},
    is_known as afterimage_is_known
    {%- endif %}

from boundaries
{%- if options.deletes == 'close' %}
where is_row
{%- endif %}
{%- endmacro -%}


{#- A text that differs whenever the values differ: each value with its length, NULL as a dash. -#}
{%- macro _unambiguous_text(expressions) -%}
concat(
    {%- for expression in expressions %}
    coalesce(concat(length(cast({{ expression }} as string)), ':', cast({{ expression }} as string)), '-')
    {{- ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}
