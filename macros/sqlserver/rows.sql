{#- The CTEs from the landed rows to `classified_rows`: what each row is or why it cannot be read, its place, its
    commit's time, and the `change_group` of the rows that may be one change. -#}
{%- macro _sqlserver_rows(instances, commits, intake, columns, common, unique_key, time_zone) -%}
{%- set sides = intake.sides -%}
{%- set known_commits = afterimage._known_commits(intake) if commits else none -%}
source_rows as (

    {%- for instance in instances %}
    {{- '\n    union all' if not loop.first }}
    {%- set mask = instance.header['__$update_mask'] %}
    select
        {{ instance.side.place }} as start_lsn,
        {{ instance.seqval }} as seqval,
        {{ instance.command }} as command_id,
        {{ instance.side.has_place }} as has_place,
        trim(cast(`__$operation` as string)) as operation,
        {{ afterimage._hex_digits(mask) if mask else 'cast(null as string)' }} as update_mask,
        {{ not loop.first }} as is_earlier,
        {{ afterimage._struct(columns) }} as image

    from (
        select
            *
            {%- for column in columns if column not in instance.columns %},
            cast(null as {{ instances[0].types[column] }}) as {{ afterimage._quote(column) }}
            {%- endfor %}

        from {{ sides[loop.index0].rows }}
    ) as landed
    where {{ sides[loop.index0].condition or 'true' }}
    {%- endfor %}

),

classified_rows as (

    select
        source_rows.*,
        {{ 'coalesce(commits.committed_at, known_commits.committed_at)' if known_commits
            else 'commits.committed_at' if commits else 'cast(null as timestamp)' }} as changed_at,
        operation in ('1', '3') as is_before,
        decode(operation, '1', 'delete', '2', 'insert', '3', 'update', '4', 'update', 'unknown') as row_kind,
        case
            when not has_place
                then concat_ws(' ', 'no place in the log (start_lsn, seqval, command):', start_lsn, seqval, command_id)
            when row_kind = 'unknown' then concat('unknown operation: ', coalesce(operation, 'NULL'))
            when {{ afterimage._has_null_key(unique_key) }} then {{ afterimage._null_key_reason(unique_key) }}
        end as row_reason,
        -- The later instance may bring the command: a change that was read may move to the front, but not back.
        if(has_place, concat(start_lsn, lpad(coalesce(command_id, '9999999999'), 10, '0'), seqval), '') as row_place,
        -- The delete and the insert of an update share a seqval, but not always a command.
        if(row_reason is null, concat(start_lsn, seqval), concat('rejected-', md5(
            {{ afterimage._exact_json(
                'struct(start_lsn, seqval, command_id, operation, '
                ~ afterimage._row_to_name('image', columns, instances[0].types) ~ ' as image)'
            ) }}
        ))) as change_group,
        {{ afterimage._struct(unique_key, 'image.') }} as own_key,
        -- Only columns that both instances have count, so that the rows of one change in both are copies.
        {{ afterimage._hash_of_values(
            afterimage._hashable_columns(common, instances[0].types, 'image.')
        ) | indent(8) }} as row_id

    from source_rows
    {%- if commits %}
    left outer join (
        select
            {{ commits.side.place }} as commit_lsn,
            max({{ afterimage._in_utc(
                afterimage._landed_time('tran_end_time', commits.header.tran_end_time.type), time_zone
            ) }}) as committed_at

        from {{ sides[-1].rows }}
        group by commit_lsn
    ) as commits
        on source_rows.start_lsn = commits.commit_lsn
    {%- endif %}
    {%- if known_commits %}
    left outer join {{ known_commits | indent(4) }} as known_commits
        on source_rows.start_lsn = known_commits.transaction_id
    {%- endif %}
    -- All windows behind this one are by group, or by group and more, so one exchange serves them all.
    distribute by change_group

)
{%- endmacro -%}


{#- The CTEs from `paired_rows` to `described`, the rows that `_finish` takes. -#}
{%- macro _sqlserver_changes(instances, columns, common, unique_key) -%}
{%- set lacking = afterimage._string_array(columns | reject('in', common) | list) -%}
{%- set is_same_key = afterimage._same_columns('partner.image', 'image', unique_key) -%}
{%- set is_kept = 'not array_contains(flagged_columns, {name})' -%}
{%- set before = '{name}, coalesce(partner.image.{column}, if(' ~ is_kept ~ ', image.{column}, null))' -%}
{%- set unflagged = 'if(partner.image.{column} <> image.{column} and ' ~ is_kept ~ ', {name}, null)' -%}
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
        "(select distinct update_mask as change_mask from source_rows where operation = '4' and is_earlier = "
        ~ (not loop.first) ~ ')', instance.columns, columns, 'hex'
    ) }}) as decoded
    {%- endfor %}

),

described as (

    select /*+ broadcast(flags) */
        change_group,
        change_group as identity,
        -- All rows of a statement have its first place, so that no change moves back when a row of it lands late.
        min(least(row_place, partner.row_place)) over (partition by change_group) as place,
        operation,
        row_id,
        if(partner is null, row_kind, 'update') as kind,
        own_key,
        if(operation = '3', null, image) as image,
        -- A large value that an update left is NULL in the row before it.
        case
            when operation = '3' then image
            when partner is not null then named_struct({{ afterimage._each(columns, before) | join(', ') }})
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
                operation = '2' and partner is not null and not ({{ is_same_key }}),
                'a delete and an insert of different keys are read as a key change',
                null
            ),
            mask_warning,
            concat('the mask leaves out what changed: ', nullif(concat_ws(
                ', ', {{ afterimage._each(columns, unflagged) | join(', ') }}
            ), ''))
        )), cast(array() as array<string>)) as warnings,
        cast(copies + coalesce(partner.copies, 0) as int) as source_rows,
        max(is_before or partner is not null) over (partition by change_group) as has_before_image,
        max(not is_before) over (partition by change_group) as has_after_image

    from paired_rows
    left outer join flags
        on update_mask = change_mask and is_earlier = is_of_earlier and operation = '4'

)
{%- endmacro -%}
