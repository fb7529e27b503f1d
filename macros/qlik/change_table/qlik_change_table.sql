{#- Qlik change table (`<table>__ct`) -> change contract. Arguments: qlik_change_table.yml. -#}
{%- macro qlik_change_table(
    relation,
    unique_key,
    columns=none,
    header_prefix='header__',
    header_columns=none,
    mask_encoding=none
) -%}
    {%- set layout = afterimage._qlik_layout(
        relation, unique_key, columns, header_prefix, header_columns, mask_encoding
    ) -%}
    {%- if layout is none -%}
        {{ return(afterimage._ahead_of_its_tables()) }}
    {%- endif -%}
    {%- set columns = layout.columns -%}
    {%- set unique_key = layout.unique_key -%}
    {%- set header = layout.header -%}
    {%- set key_json = afterimage._exact_json(afterimage._struct(unique_key, 'image.')) -%}
    {#- The short way for plain rows doubles the plan, which is worth it where there are many: not in an incremental
        run, and not for the rows of a unit test. -#}
    {%- set has_short_way = not (afterimage._is_incremental() or relation.identifier.startswith('__dbt__cte__')) -%}
    {%- set by_kind = 'partition by group_hash, change_group order by kind' -%}
    {%- do afterimage._check_drift('qlik_change_table', relation, columns) -%}
    {%- set intake = afterimage._intake('qlik_change_table', [afterimage._qlik_side(relation, layout)]) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.marker ~ afterimage._nothing_staged()) }}
    {%- endif -%}
    {%- set side = intake.sides[0] -%}
    {%- do afterimage._qlik_check_masks(relation, layout, mask_encoding, side) -%}
{{ intake.marker }}
with

source_rows as (

    select
        {{ header.change_seq }} as landed_seq,
        {{ header.change_oper }} as change_oper,
        {{ header.operation }} as operation_word,
        {{ header.timestamp }} as landed_at,
        {{ header.transaction_id }} as transaction_id,
        {{ header.change_mask }} as change_mask,
        {{ afterimage._struct(columns) }} as image

    from {{ side.rows }}
    {%- if side.condition %}
    where {{ side.condition | indent(8) }}
    {%- endif %}

),

read_rows as (

    select
        *,
        -- A full load leaves change_seq empty; zeros are what some landings make of that.
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
            -- One row a truncation of the source table; what change_oper says then is not documented.
            when 'TRUNCATE' then 'truncate'
        end as kind_by_word,
        -- PostgreSQL sources show 1970-01-01 until the transaction is committed.
        case
            when landed_at >= timestamp '1970-01-02 00:00:00' then landed_at
        end as source_time

    from source_rows

),

classified as (

    select
        *,
        case
            when kind_by_word = 'truncate' then 'truncate'
            when kind_by_letter <> kind_by_word then 'unknown'
            when change_oper <> '' and kind_by_letter is null then 'unknown'
            when coalesce(kind_by_letter, kind_by_word) = 'insert' and has_no_seq then 'load'
            else coalesce(kind_by_letter, kind_by_word, 'unknown')
        end as kind

    from read_rows

),

judged as (

    select
        *,
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
                and ({% for key in unique_key %}image.{{ afterimage._quote(key) }} is null{{ ' or ' if not loop.last }}{% endfor %})
                then {{ afterimage._literal('NULL in the key (' ~ unique_key | join(', ') ~ ')') }}
        end as reject_reason,
        -- What belongs together: the rows of one change_seq, the load rows of one key, or a malformed row alone.
        case
            when kind = 'load' then concat('load-', md5({{ key_json }}))
            when has_seq then landed_seq
            else concat('unordered-', md5({{ afterimage._exact_json('struct(
                landed_seq, change_oper, operation_word, landed_at, transaction_id, image
            )') }}))
        end as change_group

    from classified

),

-- All that follows happens within a change_group, so the rows are shuffled once. The hash stands first wherever they are
-- sorted, since the beginning of a change_seq, by which Spark would compare, is nearly the same in all rows.
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

),
{%- if has_short_way %}

-- Nearly every change stands alone, or beside its one before-image: what it needs is in the row before it.
neighbours as (

    select
        *,
        count(*) over ({{ by_kind }} rows between unbounded preceding and unbounded following) as rows_in_group,
        lag(image) over ({{ by_kind }}) as image_before,
        lag(kind = 'before_image' and reject_reason is null) over ({{ by_kind }}) as has_before_image

    from grouped

),

sorted_out as (

    select
        *,
        case
            when rows_in_group = 1 and kind <> 'before_image' then 'alone'
            when rows_in_group = 2 and kind = 'update' and reject_reason is null and has_before_image
                then 'behind its before-image'
        end as plain_case

    from neighbours

),

plain as (

    select
        group_hash,
        change_group,
        kind,
        false as is_orphan,
        has_seq,
        cast(null as bigint) as image_hash,
        source_time,
        source_time as last_time,
        transaction_id,
        change_mask,
        image,
        if(plain_case = 'alone', null, image_before) as before_image,
        reject_reason,
        rows_in_group as source_rows

    from sorted_out
    where plain_case is not null

),

-- The other groups: with copies, ties, orphans. A group must be found here or have its plain case above, never both and
-- never neither: what one condition changes the other must. No change_group is empty; asking for the other columns of one
-- that is makes this reader need the same columns as the other two, so that Spark shuffles the rows once for all three.
intricate_groups as (

    select
        group_hash,
        change_group

    from grouped
    group by group_hash, change_group
    having
        not (
            (count(*) = 1 and count_if(kind = 'before_image') = 0)
            or (
                count(*) = 2
                and count_if(kind = 'update' and reject_reason is null) = 1
                and count_if(kind = 'before_image' and reject_reason is null) = 1
            )
        )
        or count_if(
            change_group = '' and hash(has_seq, source_time, transaction_id, change_mask, image) = 0
        ) > 0

),
{%- endif %}

intricate as (

    select
        grouped.*,
        {{ afterimage._hash_of_values(afterimage._quoted(columns, 'image.')) | indent(8) }} as image_hash

    {%- if has_short_way %}
    -- Each group is there once. They stand first, so that a compiled join reads and sorts the rows only where there is one.
    -- The groups must be equal too; said plainly, that would shuffle the rows once more.
    from intricate_groups
    inner join grouped
        on
            intricate_groups.group_hash = grouped.group_hash
            and coalesce(
                grouped.change_group between intricate_groups.change_group and intricate_groups.change_group, false
            )
    {%- else %}
    from grouped
    {%- endif %}

),

-- A row delivered twice counts once; of its copies the one with the first real timestamp stands.
copies as (

    select
        *,
        row_number() over (
            partition by group_hash, change_group, kind, image_hash
            order by
                source_time asc nulls last,
                transaction_id asc nulls last,
                change_mask asc nulls last
        ) as copy_number,
        count(*) over (partition by group_hash, change_group, kind, image_hash) as copies,
        max(source_time) over (partition by group_hash, change_group, kind, image_hash) as last_time

    from intricate

),

distinct_rows as (

    select
        *,
        count_if(kind = 'update') over (partition by group_hash, change_group) as updates,
        count_if(kind = 'before_image' and reject_reason is null)
            over (partition by group_hash, change_group) as before_images

    from copies
    where copy_number = 1

),

-- What a before-image and its update have in common. Their keys differ only where the update changed the key, which
-- is certain only if there is one of each.
matchable as (

    select
        *,
        if(updates = 1 and before_images = 1, null, {{ afterimage._struct(unique_key, 'image.') }}) as pair_key

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

-- The vendor's recipe is a left outer join of the changes with the before-images of the same change_seq. Looking from
-- each update at the before-image beside it is the same without a second reading of the table, and keeps in sight
-- a before-image that has no update.
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
        copies + if(kind = 'update' and number_of_pair = 1, coalesce(before_partner.copies, 0), 0) as source_rows

    from partners
    where not (kind = 'before_image' and reject_reason is null and number_of_pair = 1 and has_update)

),

-- A change table holds few distinct masks: each is decoded once, then looked up.
masks as (

    select
        change_mask,
        decode_change_mask(
            change_mask, {{ layout.header_columns }}
            {%- if mask_encoding is not none %}, '{{ mask_encoding }}'{% endif %}
        ) as ordinals

    from (select distinct change_mask from source_rows where change_mask is not null) as distinct_masks

),

flags as (

    select
        change_mask,
        {% if columns | length < layout.ordinals | length -%}
        array_intersect(
            transform(
                filter(ordinals, k -> k <= {{ layout.ordinals | length }}),
                k -> element_at({{ afterimage._string_array(layout.ordinals) }}, k)
            ),
            {{ afterimage._string_array(columns) }}
        )
        {%- else -%}
        transform(
            filter(ordinals, k -> k <= {{ columns | length }}),
            k -> element_at({{ afterimage._string_array(columns) }}, k)
        )
        {%- endif %} as flagged_columns,
        filter(ordinals, k -> k > {{ layout.ordinals | length }}) as unknown_ordinals

    from masks

),
{%- for rows in ['paired', 'plain'] if has_short_way or rows == 'paired' %}

masked_{{ rows }} as (

    -- The few masks go to the rows, not the rows to the masks.
    select /*+ broadcast(flags) */
        unmasked.is_orphan,
        unmasked.group_hash,
        unmasked.change_group,
        unmasked.kind,
        -- A before-image and its update are one change, so they share a letter and with it an identity.
        case unmasked.kind
            when 'before_image' then 'U'
            when 'unknown' then 'X'
            else upper(left(unmasked.kind, 1))
        end as letter,
        unmasked.has_seq,
        unmasked.image_hash,
        unmasked.source_time,
        unmasked.last_time,
        unmasked.transaction_id,
        unmasked.image,
        unmasked.before_image,
        unmasked.source_rows,
        flags.flagged_columns,
        flags.unknown_ordinals,
        if(
            unmasked.reject_reason is null
            and unmasked.kind in ('insert', 'update')
            and unmasked.change_mask is not null
            and flags.flagged_columns is null,
            concat('change_mask cannot be decoded: ', {{ layout.mask_as_text }}),
            unmasked.reject_reason
        ) as reject_reason

    from {{ rows }} as unmasked
    left outer join flags
        on unmasked.change_mask = flags.change_mask

),
{%- endfor %}

-- Different changes that share a change_seq are told apart: by a number in change_id, and for one key by a
-- suffix of change_seq that puts them in a declared order, delete last. Of different load rows of one key, which
-- have no change_seq, the one loaded last stands.
numbered as (

    select
        *,
        row_number() over (
            partition by group_hash, change_group, letter
            order by
                is_orphan asc,
                -- The load that stands comes first, so that it takes the place of an earlier one that is no longer landed.
                if(kind = 'load', last_time, null) desc nulls last,
                if(kind = 'load', null, source_time) asc nulls last,
                if(kind = 'load', null, image_hash) asc,
                image_hash desc
        ) as number_of_letter,
        row_number() over (
            partition by group_hash, change_group, is_good, own_key
            order by
                array_position(array('load', 'insert', 'update', 'delete', 'truncate'), kind) asc,
                if(kind = 'load', last_time, source_time) asc nulls first,
                image_hash asc
        ) as turn,
        count(*) over (partition by group_hash, change_group, is_good, own_key) as turns

    from (
        select
            *,
            reject_reason is null as is_good,
            {{ afterimage._struct(unique_key, 'coalesce(image, before_image).') }} as own_key

        from masked_paired
    ) as keyed
    {%- if has_short_way %}
    union all
    select
        *,
        true as is_good,
        if(true, null, {{ afterimage._struct(unique_key, 'image.') }}) as own_key,
        1 as number_of_letter,
        1 as turn,
        cast(1 as bigint) as turns

    from masked_plain
    {%- endif %}

),

told_apart as (

    select
        *,
        turn > 1 and kind <> 'load' and reject_reason is null as is_tied

    from numbered

),

warned as (

    select
        *,
        if(
            kind <> 'load' and source_time is null,
            {{ afterimage._qlik_time_warning('change_group') | indent(12) }},
            null
        ) as time_warning,
        if(
            size(unknown_ordinals) > 0,
            concat('change_mask has bits past the last column: ', array_join(unknown_ordinals, ', ')),
            null
        ) as mask_warning,
        {{ afterimage._qlik_unflagged_warning(columns, layout.types) | indent(8) }} as unflagged_warning,
        if(is_tied, 'another change of this key has the same change_seq', null) as tie_warning,
        case
            when kind <> 'update' then null
            when before_image is null
                then if(
                    arrays_overlap(flagged_columns, {{ afterimage._string_array(layout.unique_key) }}),
                    'the key changed, but without a before-image the old key is unknown',
                    null
                )
            when
                not ({{ afterimage._same_columns('image', 'before_image', layout.unique_key) }})
                and ({{ afterimage._qlik_any_absent(columns, layout.unique_key) | indent(16) }})
                then {{ afterimage._literal(afterimage._moved_incomplete()) }}
        end as key_warning

    from told_apart

),

changes as (

    select
        concat(change_group, '-', letter, if(number_of_letter > 1, concat('-', number_of_letter), '')) as change_id,
        concat(
            if(kind <> 'load' and has_seq, change_group, ''),
            if(is_tied, concat('.', lpad(turn, 3, '0')), '')
        ) as change_seq,
        case kind when 'unknown' then cast(null as string) when 'before_image' then 'update' else kind end as operation,
        case
            when kind in ('update', 'before_image') then before_image
            when kind = 'delete' then image
        end as `before`,
        if(kind in ('load', 'insert', 'update', 'unknown'), image, null) as `after`,
        if(kind in ('insert', 'update'), flagged_columns, null) as changed_columns,
        {{ afterimage._qlik_absent_columns(columns, layout.unique_key) | indent(8) }} as absent_columns,
        coalesce(source_time, {{ afterimage._qlik_seq_time('change_group') | indent(8) }}) as changed_at,
        transaction_id,
        if(
            kind = 'load' and reject_reason is null and turn < turns,
            'superseded: a later load has other values for this key',
            reject_reason
        ) as reject_reason,
        -- Few changes have any, and functions with lambdas are slow.
        if(
            coalesce(time_warning, mask_warning, unflagged_warning, tie_warning, key_warning) is not null,
            array_compact(array(time_warning, mask_warning, unflagged_warning, tie_warning, key_warning)),
            null
        ) as warnings,
        source_rows,
        cast(null as string) as changed_by

    from warned

)

{{ afterimage._staged('changes', intake) }}
{%- endmacro -%}
