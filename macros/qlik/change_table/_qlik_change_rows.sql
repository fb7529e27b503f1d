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

judged as (

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
                landed_seq, change_oper, operation_word, landed_at, transaction_id, image
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

    from judged
    distribute by group_hash

)
{%- endmacro -%}
