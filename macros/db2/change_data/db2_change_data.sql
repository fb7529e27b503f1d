{#- Db2 change data (CD) or consistent change data (CCD) table -> change contract. Arguments:
    db2_change_data.yml. -#}
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
    {%- if layout is none or afterimage._is_ahead_of([uow]) -%}
        {{ return(afterimage._ahead_of_its_tables()) }}
    {%- endif -%}
    {%- do afterimage._db2_check_uow('db2_change_data', uow) -%}
    {%- set complete = complete if complete is not none else layout.has_logmarker -%}
    {%- do afterimage._check_drift('db2_change_data', relation, layout.columns) -%}
    {#- A condensed table is as small as its source, and a row in it may replace one of any age. -#}
    {%- set intake = afterimage._intake(
        'db2_change_data', afterimage._db2_sides(layout, relation, uow, condensed), whole=condensed
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.marker ~ afterimage._nothing_staged()) }}
    {%- endif -%}
    {%- set side = intake.sides[0] %}
{{ intake.marker }}
with

{{ afterimage._db2_rows(layout, side.rows, side.condition, complete, uow, time_zone) }},

{% if condensed -%}
{{ afterimage._db2_condensed() }}
{%- else -%}
{{ afterimage._db2_paired(layout, pair_key_changes) }}
{%- endif %},

changes as (

    select
        change_id,
        change_seq,
        nullif(operation, 'unknown') as operation,
        `before`,
        `after`,
        cast(null as array<string>) as changed_columns,
        cast(null as array<string>) as absent_columns,
        changed_at,
        commit_place as transaction_id,
        reject_reason,
        nullif(array_compact(array(
            if(
                commit_place is not null and changed_at is null,
                'changed_at is unknown: neither IBMSNAP_LOGMARKER nor IBMSNAP_UOW has it',
                null
            ),
            if(
                kind in ('insert', 'load') and has_before_values,
                'an inserted row has values in before-image columns, which may be data columns',
                null
            ),
            if(lost_before, 'the before-image has no key and is left out', null),
            if(is_tied, 'another change of this key has the same change_seq', null),
            key_change_warning,
            {%- if condensed %}
            if(reject_reason is null, 'the table is condensed: earlier changes of this key are unknown', null)
            {%- else %}
            cast(null as string)
            {%- endif %}
        )), cast(array() as array<string>)) as warnings,
        cast(source_rows as int) as source_rows,
        cast(null as string) as changed_by

    from told_apart

)

{{ afterimage._staged('changes', intake) }}
{%- endmacro -%}
