{#- The CTEs from the landed rows to `grouped`: the kind of each row, its reject reason, and the `change_group` of
    rows that belong together. -#}
{%- macro _qlik_change_rows(side, layout) -%}
{%- set header = layout.header -%}
{%- set unique_key = layout.unique_key -%}
source_rows as (

    select
        {{ header.change_seq }} as landed_seq,
        {{ header.change_oper }} as change_oper,
        {{ header.operation }} as operation_word,
        {{ header.timestamp }} as landed_at,
        {{ header.transaction_id }} as transaction_id,
        {{ header.change_mask }} as change_mask,
        {{ afterimage._struct(layout.columns) }} as image

    from {{ side.rows }}
    {%- if side.condition %}
    where {{ side.condition | indent(8) }}
    {%- endif %}

),

classified as (

    select
        *,
        -- A full load leaves change_seq empty; some landings turn that into zeros.
        coalesce(landed_seq rlike '^0*$', true) as has_no_seq,
        coalesce(landed_seq rlike '^[0-9]{35}$', false) as has_seq,
        case change_oper
            when 'I' then 'insert'
            when 'U' then 'update'
            when 'D' then 'delete'
            when 'B' then 'before_image'
        end as kind_by_letter,
        case operation_word
            when 'INSERT' then 'insert'
            when 'UPDATE' then 'update'
            when 'DELETE' then 'delete'
            when 'BEFOREIMAGE' then 'before_image'
            -- One row per truncation of the source table. Qlik does not document change_oper for it.
            when 'TRUNCATE' then 'truncate'
        end as kind_by_word,
        -- PostgreSQL sources show 1970-01-01 until the transaction is committed.
        case
            when landed_at >= timestamp '1970-01-02 00:00:00' then landed_at
        end as source_time,
        case
            when kind_by_word = 'truncate' then 'truncate'
            when kind_by_letter <> kind_by_word then 'unknown'
            when change_oper <> '' and kind_by_letter is null then 'unknown'
            when coalesce(kind_by_letter, kind_by_word) = 'insert' and has_no_seq then 'load'
            else coalesce(kind_by_letter, kind_by_word, 'unknown')
        end as kind,
        case
            when kind = 'unknown'
                then concat(
                    'unknown operation: change_oper ', coalesce(concat('"', change_oper, '"'), 'NULL'),
                    ', operation ', coalesce(concat('"', operation_word, '"'), 'NULL')
                )
            when kind <> 'load' and not has_seq
                then concat('change_seq is not 35 digits: ', coalesce(concat('"', landed_seq, '"'), 'NULL'))
            when
                kind <> 'truncate'
                and {{ afterimage._has_null_key(unique_key) }}
                then {{ afterimage._null_key_reason(unique_key) }}
        end as reject_reason,
        -- A group is the rows of one change_seq, the load rows of one key, or a single malformed row.
        case
            when kind = 'load' then concat('load-', {{ afterimage._key_hash(afterimage._struct(unique_key, 'image.')) }})
            when has_seq then landed_seq
            else concat('unordered-', md5({{ afterimage._exact_json('struct(
                landed_seq, change_oper, operation_word, landed_at, transaction_id, '
                ~ afterimage._row_to_name('image', layout.columns, layout.types) ~ ' as image
            )') }}))
        end as change_group

    from source_rows

),

-- All later steps work within a change_group, so the rows are shuffled once. Sorts use the hash first: Spark compares
-- the beginning of a value, and that of a change_seq is nearly the same in all rows.
grouped as (

    select
        change_group,
        kind,
        has_seq,
        source_time,
        transaction_id,
        change_mask,
        image,
        reject_reason,
        xxhash64(change_group) as group_hash

    from classified
    distribute by group_hash

)
{%- endmacro -%}


{#- The CTEs from `grouped` to `paired`: each row once, with an update's before-image beside it. With
    `has_short_way` only those of `complex_groups`. -#}
{%- macro _qlik_pairs(layout, has_short_way) -%}
{%- set values = afterimage._hashable_columns(layout.columns, layout.types, 'image.') -%}
{%- set own_key = afterimage._struct(layout.unique_key, 'image.') -%}
complex_rows as (

    select
        grouped.*,
        {{ afterimage._hash_of_values(values) | indent(8) }} as image_hash

    {%- if has_short_way %}
    -- Each group occurs once. The hashes come first, so that a compiled join reads and sorts the rows only if there is
    -- a group. The groups must be equal too; a plain equality would shuffle the rows again.
    from complex_groups
    inner join grouped
        on
            complex_groups.group_hash = grouped.group_hash
            and coalesce(
                grouped.change_group between complex_groups.change_group and complex_groups.change_group, false
            )
    {%- else %}
    from grouped
    {%- endif %}

),

-- A row delivered twice counts once: the copy with the first real timestamp.
{{ afterimage._distinct_rows(
    'complex_rows', by='group_hash, change_group, kind, image_hash',
    first='source_time asc nulls last, transaction_id asc nulls last, change_mask asc nulls last', time='source_time'
) }},

-- What a before-image and its update have in common. Their keys differ only if the update changed the key, and that is
-- certain only if each side has one key.
matchable as (

    select
        *,
        if(
            {{ afterimage._has_one_key_each(
                "kind = 'before_image' and reject_reason is null", "kind = 'update' and reject_reason is null",
                own_key, 'group_hash, change_group'
            ) }},
            null,
            {{ own_key }}
        ) as pair_key,
        {%- for name, condition in {
            'has_before_image': "kind = 'before_image' and reject_reason is null", 'has_after_image': "kind = 'update'"
        }.items() %}
        max({{ condition }}) over (partition by group_hash, change_group) as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}

    from distinct_rows

),

matched as (

    select
        *,
        row_number() over (
            partition by group_hash, change_group, pair_key, kind
            order by reject_reason is not null, image_hash
        ) as number_of_pair

    from matchable

),

partners as (

    select
        *,
        first(
            if(
                kind = 'before_image' and reject_reason is null and number_of_pair = 1,
                struct(image, copies),
                null
            ),
            true
        ) over (partition by group_hash, change_group, pair_key) as before_partner,
        max(kind = 'update' and number_of_pair = 1) over (partition by group_hash, change_group, pair_key) as has_update

    from matched

),

-- The vendor's recipe is a left outer join of the changes with the before-images of the same change_seq. Looking up the
-- before-image next to each update gives the same without reading the table twice, and also shows before-images without
-- an update.
paired as (

    select
        group_hash,
        change_group,
        kind,
        kind = 'before_image' as is_orphan,
        has_seq,
        image_hash,
        source_time,
        last_time,
        transaction_id,
        change_mask,
        if(kind = 'before_image', null, image) as image,
        case
            when kind = 'before_image' then image
            when kind = 'update' and number_of_pair = 1 then before_partner.image
        end as before_image,
        if(
            kind = 'before_image' and reject_reason is null,
            'before-image without its update: no update of this key has this change_seq',
            reject_reason
        ) as reject_reason,
        copies + if(kind = 'update' and number_of_pair = 1, coalesce(before_partner.copies, 0), 0) as source_rows,
        has_before_image,
        has_after_image,
        false as is_alone

    from partners
    where not (kind = 'before_image' and reject_reason is null and number_of_pair = 1 and has_update)

)
{%- endmacro -%}
