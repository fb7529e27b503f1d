{#- The CTEs from `distinct_rows` to `described`, the rows that `_finish` takes. -#}
{%- macro _sqlserver_changes(instances, columns, common, unique_key) -%}
{%- set lacking = afterimage._string_array(columns | reject('in', common) | list) -%}
{%- set before = [] -%}
{%- set unflagged = [] -%}
{%- for column in columns -%}
    {%- set values = ['found.image.' ~ afterimage._quote(column), 'image.' ~ afterimage._quote(column)] -%}
    {%- set literal = afterimage._literal(column) -%}
    {%- set is_kept = 'not array_contains(flagged_columns, ' ~ literal ~ ')' -%}
    {%- do before.append(literal ~ ', coalesce(' ~ values[0] ~ ', if(' ~ is_kept ~ ', ' ~ values[1] ~ ', null))') -%}
    {%- do unflagged.append('if(' ~ values | join(' <> ') ~ ' and ' ~ is_kept ~ ', ' ~ literal ~ ', null)') -%}
{%- endfor -%}
-- What an update found and what it left are two rows: 3 and 4, or 1 and 2 where a unique key was in it. They belong
-- together by key, and rows of different keys only where no other row has their place.
paired as (

    select
        *,
        if(is_before, null, lag(if(is_before, struct(row_place, image, copies), null)) over in_pair) as found,
        is_before and coalesce(lead(not is_before) over in_pair, false) as is_told

    from distinct_rows
    window in_pair as (
        partition by change_group, operation in ('1', '2'), if(rows_in_group = 2, null, own_key)
        order by is_before desc, row_id
    )

),

-- A change table holds few distinct masks.
flags as (

    select
        update_mask,
        is_earlier,
        array_intersect(transform(ordinals, k -> get(names, k - 1)), {{ afterimage._string_array(columns) }}) as flagged_columns,
        case
            when ordinals is null then concat('the update mask cannot be decoded: ', update_mask)
            when array_max(ordinals) > array_size(names)
                then concat('the update mask has bits past the last column: ', update_mask)
        end as mask_warning

    from (
        select
            *,
            decode_change_mask(update_mask, 0, 'hex') as ordinals,
            if(
                is_earlier,
                {{ afterimage._string_array(instances[-1].columns) }},
                {{ afterimage._string_array(instances[0].columns) }}
            ) as names

        from (select distinct update_mask, is_earlier from source_rows where operation = '4') as masks
    ) as decoded

),

described as (

    select /*+ broadcast(flags) */
        change_group,
        change_group as identity,
        coalesce(found.row_place, row_place) as place,
        operation,
        row_id,
        case
            when found is not null or operation in ('3', '4') then 'update'
            when operation = '1' then 'delete'
            when operation = '2' then 'insert'
            else 'unknown'
        end as kind,
        own_key,
        if(operation = '3', null, image) as image,
        -- A large value that an update left is NULL in the row before it.
        case
            when operation = '3' then image
            when found is not null then named_struct({{ before | join(', ') }})
        end as before_image,
        flagged_columns as changed_columns,
        if(paired.is_earlier and not is_before, {{ lacking }}, null) as absent_columns,
        changed_at,
        if(row_place = '', null, start_lsn) as transaction_id,
        if(
            operation = '3' and row_reason is null,
            'before-image without its update: no update of this key has this __$seqval',
            row_reason
        ) as reject_reason,
        nullif(array_compact(array(
            if(row_place <> '' and changed_at is null, 'changed_at is unknown: lsn_times does not have the commit', null),
            if(
                operation = '2' and found is not null and not ({{ afterimage._same_columns('found.image', 'image', unique_key) }}),
                'a delete and an insert of different keys are read as a key change',
                null
            ),
            mask_warning,
            concat('the update mask leaves out what changed: ', nullif(concat_ws(', ', {{ unflagged | join(', ') }}), ''))
        )), cast(array() as array<string>)) as warnings,
        cast(copies + coalesce(found.copies, 0) as int) as source_rows

    from paired
    left outer join flags
        on paired.update_mask = flags.update_mask and paired.is_earlier = flags.is_earlier and operation = '4'
    where not is_told

)
{%- endmacro -%}
