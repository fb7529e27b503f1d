{#- Db2 change data (CD) or consistent change data (CCD) table -> change contract. Arguments: db2_change_data.yml. -#}
{%- macro db2_change_data(
    relation,
    unique_key,
    columns=none,
    before_prefix='X',
    uow=none,
    condensed=false,
    complete=none,
    pair_key_changes=false,
    time_zone='UTC'
) -%}
    {%- set layout = afterimage._db2_layout('db2_change_data', relation, unique_key, columns, before_prefix) -%}
    {%- do afterimage._check_choice('db2_change_data', 'condensed', condensed, [true, false]) -%}
    {%- do afterimage._check_choice('db2_change_data', 'complete', complete, [none, true, false]) -%}
    {%- do afterimage._check_choice('db2_change_data', 'pair_key_changes', pair_key_changes, [true, false]) -%}
    {%- do afterimage._check_text('db2_change_data', 'time_zone', time_zone) -%}
    {%- if layout is none or afterimage._needs_placeholder([uow]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set uow = afterimage._db2_uow(uow) if uow is not none else none -%}
    {%- set complete = complete if complete is not none else layout.has_logmarker -%}
    {%- set new_shape = afterimage._check_drift('db2_change_data', relation, layout.columns) -%}
    {#- A condensed table is as small as its source, and one of its rows may replace a row of any age. -#}
    {%- set intake = afterimage._intake(
        'db2_change_data', layout.unique_key, afterimage._db2_sides(layout, relation, uow, condensed, time_zone), new_shape,
        whole=condensed, read_by={'time_zone': time_zone},
        made_by={
            'condensed': condensed | string | lower, 'complete': complete | string | lower,
            'uow': 'given' if uow is not none else none,
        }
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {%- set side = intake.sides[0] %}
with

{{ afterimage._db2_rows(
    layout, side.rows, side.condition, complete, uow, time_zone,
    known_commits=afterimage._known_commits(intake) if uow is not none else none
) }},

{{ afterimage._db2_condensed() if condensed else afterimage._db2_paired(layout, pair_key_changes) }},

{{ afterimage._db2_described(condensed) }},

{#- A row of a condensed table that was sent before does not take the place of a later one. Only a load has no
    commit: a commit is newer than a known load, whatever their times. With another time zone, the same load may have
    an earlier time. -#}
{%- set is_older_state -%}
known.reject_reason is null
    and changes.reject_reason is null
    and coalesce(
        known.transaction_id > changes.transaction_id,
        changes.transaction_id is null and {{ not intake.has_new_rules }}
    )
    and known.changed_at > changes.changed_at
{%- endset -%}
{%- set other_half = afterimage._keep_other_half(layout.unique_key) %}
{{ afterimage._finish(
    intake, layout.columns, layout.types, layout.unique_key,
    lacks=['changed_columns', 'absent_columns', 'changed_by'],
    ties={} if condensed else {
        'identity_order': "intent_place asc, row_rank asc, if(kind = 'load', last_time, null) desc nulls last, image_hash desc",
        'order': "row_rank asc, if(kind = 'load', last_time, null) desc nulls last, "
            ~ "if(kind = 'load', image_hash, null) desc, image_hash asc",
        'comes_last': "(kind = 'update' and row_kind = 'delete')",
    },
    known={'unchanged_if': is_older_state} if condensed else dict(
        other_half, carried=other_half.carried + ['last_time'],
        kept=dict(other_half.kept, **afterimage._keep_first_time(intake, layout.columns, layout.types)),
        unchanged_if='(' ~ other_half.unchanged_if ~ ') or ('
            ~ afterimage._is_older_load(intake, layout.columns, layout.types) ~ ')'
    )
) }}
{%- endmacro -%}


{#- The CTEs from `distinct_rows` to `paired_changes` for a table that holds the last row of each key. It holds a
    state, not changes. Every row has the place of a full-load row. A later row of the key replaces it under the same
    change_id. -#}
{%- macro _db2_condensed() -%}
states as (

    select
        *,
        -- There should be one row per key. If there are more, the latest is taken.
        row_number() over (
            partition by if(reject_reason is null, key_hash, row_group)
            order by
                commit_place desc nulls last,
                intent_place desc nulls last,
                row_rank desc,
                last_time desc nulls last,
                image_hash asc
        ) as turn

    from distinct_rows

),

paired_changes as (

    select
        concat(
            if(reject_reason is null, concat('key-', key_hash), row_group),
            if(turn > 1, concat('-', turn), '')
        ) as identity,
        '' as place,
        if(kind in ('insert', 'update'), 'load', kind) as kind,
        kind as row_kind,
        key_hash as own_key,
        image,
        if(true, null, image) as before_image,
        has_before_values,
        false as lost_before,
        cast(null as string) as key_change_warning,
        commit_place,
        changed_at,
        if(
            reject_reason is null and turn > 1,
            'superseded: a later row has this key, so the table is not condensed',
            reject_reason
        ) as reject_reason,
        copies as source_rows

    from states

)
{%- endmacro -%}


{#- The CTE `described`, the rows that `_finish` takes. -#}
{%- macro _db2_described(condensed) -%}
described as (

    select
        *,
        commit_place as transaction_id,
        nullif(array_compact(array(
            if(
                commit_place is not null and changed_at is null,
                'changed_at is unknown: neither IBMSNAP_LOGMARKER nor IBMSNAP_UOW has it',
                null
            ),
            if(
                row_kind in ('insert', 'load') and has_before_values,
                'an inserted row has values in before-image columns, which may be data columns',
                null
            ),
            if(lost_before, 'the before-image has no key and is left out', null),
            {%- if condensed %}
            if(reject_reason is null, 'the table is condensed: earlier changes of this key are unknown', null),
            {%- endif %}
            key_change_warning
        )), cast(array() as array<string>)) as warnings

    from paired_changes

)
{%- endmacro -%}
