{#- The CTEs from `paired_rows` to `described`, the rows that `_finish` takes. -#}
{%- macro _sqlserver_changes(instances, columns, common, unique_key) -%}
{%- set lacking = afterimage._string_array(columns | reject('in', common) | list) -%}
{%- set is_same_key = afterimage._same_columns('found.image', 'image', unique_key) -%}
{%- set is_kept = 'not array_contains(flagged_columns, {name})' -%}
{%- set before = '{name}, coalesce(found.image.{column}, if(' ~ is_kept ~ ', image.{column}, null))' -%}
{%- set unflagged = 'if(found.image.{column} <> image.{column} and ' ~ is_kept ~ ', {name}, null)' -%}
flags as (

    {%- for instance in instances %}
    {{- '\n    union all' if not loop.first }}
    select
        *,
        case
            when flagged_columns is null then concat('the mask cannot be decoded: ', change_mask)
            when size(unknown_ordinals) > 0 then concat('the mask has bits past the last column: ', change_mask)
        end as mask_warning,
        {{ not loop.first }} as is_of_earlier

    from ({{ afterimage._decoded_masks(
        "select distinct update_mask as change_mask from source_rows where operation = '4' and is_earlier = "
        ~ (not loop.first), instance.columns, columns, 'hex'
    ) }}) as decoded
    {%- endfor %}

),

described as (

    select /*+ broadcast(flags) */
        change_group,
        change_group as identity,
        -- All rows of a statement have its first place, so that no change moves back when a row of it lands late.
        min(least(row_place, found.row_place)) over (partition by change_group) as place,
        operation,
        row_id,
        if(found is null, row_kind, 'update') as kind,
        own_key,
        if(operation = '3', null, image) as image,
        -- A large value that an update left is NULL in the row before it.
        case
            when operation = '3' then image
            when found is not null then named_struct({{ afterimage._each(columns, before) | join(', ') }})
        end as before_image,
        flagged_columns as changed_columns,
        if(is_earlier and not is_before, {{ lacking }}, null) as absent_columns,
        changed_at,
        if(has_place, start_lsn, null) as transaction_id,
        coalesce(
            row_reason,
            if(operation = '3', 'before-image without its update: no update of this key has this __$seqval', null)
        ) as reject_reason,
        nullif(array_compact(array(
            if(has_place and changed_at is null, 'changed_at is unknown: lsn_times does not have the commit', null),
            if(
                operation = '2' and found is not null and not ({{ is_same_key }}),
                'a delete and an insert of different keys are read as a key change',
                null
            ),
            mask_warning,
            concat('the mask leaves out what changed: ', nullif(concat_ws(
                ', ', {{ afterimage._each(columns, unflagged) | join(', ') }}
            ), ''))
        )), cast(array() as array<string>)) as warnings,
        cast(copies + coalesce(found.copies, 0) as int) as source_rows

    from paired_rows
    left outer join flags
        on update_mask = change_mask and is_earlier = is_of_earlier and operation = '4'

)
{%- endmacro -%}
