{#- The CTEs from `tracked_changes` to `described`, the rows that `_finish` takes. -#}
{%- macro _openedge_described(layout) -%}
described as (

    select
        change_group,
        has_before_image,
        is_split,
        before_is_split,
        is_orphan,
        row_hash,
        row_count,
        tracking_copies,
        case
            when startswith(reject_reason, 'superseded:') then 5
            when kind = 'insert' then 1
            when kind in ('update', 'before_image') then 2
            when kind = 'delete' then 3
            else 4
        end as precedence,
        change_group as identity,
        if(has_seq, change_group, '') as place,
        case
            when reject_reason is not null then reject_reason
            {{ afterimage._openedge_unread_reasons() | indent(12) }}
            {{ afterimage._openedge_no_data_reasons(layout) | indent(12) }}
        end as final_reason,
        -- Only updates fill the map. An empty one says nothing; for creates and deletes not even that.
        if(
            kind in ('update', 'before_image') and (has_change_row or size(flagged_columns) > 0), flagged_columns, null
        ) as changed_columns,
        {{ afterimage._openedge_absent_columns(layout) | indent(8) }} as absent_columns,
        if(
            before_image is null or image is null,
            null,
            array_except(
                array_compact(array({{ afterimage._each(
                    layout.columns, 'if(image.{column} <=> before_image.{column}, null, {name})'
                ) | join(', ') }})),
                coalesce(absent_columns, cast(array() as array<string>))
            )
        ) as differing_columns,
        case
            when kind in ('insert', 'update', 'delete') then kind
            when kind = 'before_image' then 'update'
            when kind in {{ afterimage._openedge_resets() }} and final_reason is null then 'truncate'
            else 'unknown'
        end as kind,
        {{ afterimage._struct(layout.unique_key, 'coalesce(image, before_image).') }} as own_key,
        image,
        before_image,
        changed_at,
        transaction_id,
        final_reason as reject_reason,
        {{ afterimage._openedge_warnings(layout) | indent(8) }} as warnings,
        nullif(tracking.user_name, '') as changed_by
        {%- if layout.tracks %},
        tracking
        {%- endif %}

    from tracked_changes

)
{%- endmacro -%}


{#- Columns of an update that it does not have: an update holds the fields that it changed and the identifying fields of
    the policy, and NULL in the others (OpenEdge SQL Development, "Propagate change details to the Data Warehouse"). A NULL
    was set if the field map flags the column, or, without a map, if the row before has a value there. NULL if the update
    has all columns. -#}
{%- macro _openedge_absent_columns(layout) -%}
    {%- set columns = layout.columns | reject('in', layout.unique_key) | list -%}
    {%- if not columns -%}
        {{ return('cast(null as array<string>)') }}
    {%- endif -%}
    {%- set lacks = 'image.{column} is null and if(flagged_columns is null, '
        ~ 'before_image.{column} is null, not array_contains(flagged_columns, {name}))' -%}
if(
    kind = 'update' and image is not null and reject_reason is null,
    nullif(
        array_compact(array({{ afterimage._each(columns, 'if(' ~ lacks ~ ', {name}, null)') | join(', ') }})),
        cast(array() as array<string>)
    ),
    null
)
{%- endmacro -%}


{#- Why a change without values cannot be applied: WHEN branches. -#}
{%- macro _openedge_no_data_reasons(layout) -%}
when kind in ('insert', 'update', 'delete') and not has_change_row
    {%- if layout.policy_level in [2, 3] %}
    then concat(
        'change row missing: the tracking table has this change, of record ',
        coalesce(cast(tracking.record_id as string), '?')
    )
    {%- else %}
    then concat(
        'row touched: record ', coalesce(cast(tracking.record_id as string), '?'),
        ', of which no values were recorded'
    )
    {%- endif %}
when kind in ('field deleted', 'field added') then concat(kind, ': this changed the table, and no row')
when kind = 'partition merged' then concat(kind, ': partition ', coalesce(cast(tracking.partition_id as string), '?'))
{%- if layout.partition_resets == 'reject' %}
when kind in {{ afterimage._openedge_resets() }}
    then concat(
        kind, ': the rows of partition ', coalesce(cast(tracking.partition_id as string), '?'),
        ' are gone, and nothing says which'
    )
{%- endif %}
{%- endmacro -%}


{#- Why a row's kind cannot be read, as branches of a `case`. -#}
{%- macro _openedge_unread_reasons() -%}
when not has_seq
    then concat('_Change-Sequence is not a whole number: ', coalesce(concat('"', sequence, '"'), 'NULL'))
when kind = 'unknown'
    then concat('unknown operation: ', coalesce(concat('"', operation, '"'), 'NULL'))
{%- endmacro -%}


{%- macro _openedge_resets() -%}
    {{ return(
        "('partition dropped', 'partition truncated', 'partition deallocated', 'tenant partition deallocated',"
        ~ " 'tenant partition dropped')"
    ) }}
{%- endmacro -%}


{#- The warnings of a change, apart from those that all sources share. -#}
{%- macro _openedge_warnings(layout) -%}
nullif(array_compact(array(
    if(changed_at is null, '_Time-Stamp is missing or cannot be read', null),
    if(
        kind = 'update' and size(unknown_fields) > 0,
        concat('the field map has what is no field: ', array_join(unknown_fields, ', ')),
        null
    ),
    if(
        kind = 'update' and not is_decoded,
        concat(
            'the field map cannot be decoded: ',
            {{ 'hex(field_map)' if layout.field_map_type == 'binary' else 'field_map' }}
        ),
        null
    ),
    if(
        size(array_except(differing_columns, changed_columns)) > 0,
        concat(
            'the field map leaves out what changed: ',
            array_join(array_except(differing_columns, changed_columns), ', ')
        ),
        null
    ),
    {%- if layout.policy_level == 3 %}
    if(
        kind = 'update' and image is not null and before_image is null and before_reason is null,
        'no before-image, though policy level 3 records one',
        null
    ),
    {%- endif %}
    {%- if layout.tracking_relation is not none %}
    if(has_change_row and has_seq and tracked_kind is null, 'no row in the tracking table', null),
    {%- endif %}
    if(
        has_change_row and if(tracked_kind = 'before_image', 'update', tracked_kind)
        <> if(kind = 'before_image', 'update', kind),
        concat('the tracking table has another operation: ', coalesce(tracked_operation, 'NULL')),
        null
    ),
    -- With a row before, a column that is NULL in both has not changed.
    if(
        flagged_columns is null and before_image is null and absent_columns is not null,
        'without a field map NULL counts as unchanged, though it may have been set',
        null
    ),
    if(before_reason is not null, concat('before-image left out: ', before_reason), null),
    if(has_forms, 'parts of this record came in several forms, of which one counts', null)
)), cast(array() as array<string>))
{%- endmacro -%}
