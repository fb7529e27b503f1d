{#- The CTEs from `compared_rows` to `described`, the rows that `_finish` takes. Rows that are as before make one
    rejected change per copy, so that every landed row is in the stream. -#}
{%- macro _copies_changes(plan, columns, types) -%}
paired_changes as (

    select
        concat(copy, if(kind = 'load', '-load-', '-'), {{ afterimage._key_hash('own_key') }}) as identity,
        if(kind = 'load', '', copy) as place,
        copy,
        kind,
        image,
        if(
            kind = 'update' and last_row_count = 1
            {%- if plan and plan.has_added %} and last_place not in ('{{ plan.gone | join("', '") }}'){% endif %},
            last_image,
            null
        ) as before_image,
        cast(null as string) as reject_reason,
        if(kind = 'delete', nullif(array_compact(array(
            if(next_is_small, 'the copy has less than half of the rows of the one before', null),
            if(row_count > 1, 'the copy before has several rows of the key, and this is one of them', null)
        )), cast(array() as array<string>)), null) as warnings,
        if(kind = 'delete', 0, copies) as source_rows

    from (
        -- The last copy that has a row makes the delete in the next one.
        select
            *,
            inline(array_compact(array(
                if(outcome <> 'unchanged', struct(outcome as kind, place as copy), null),
                if(is_last, struct('delete' as kind, next_place as copy), null)
            )))

        from compared_rows
    ) as changes
    union all
    select
        concat(coalesce(place, 'rejected'), '-', {{ afterimage._key_hash(
            'struct(landed_date, ' ~ afterimage._row_to_name('image', columns, types) ~ ' as image)', 'landed_date, row_id'
        ) }}),
        coalesce(place, ''),
        place,
        'unknown',
        image,
        null,
        coalesce(row_reason, concat('twice in one copy: the key has ', row_count, ' different rows')),
        null,
        copies

    from placed_rows
    where
        (row_reason is not null or row_count > 1)
        and is_compared
        {%- if plan and plan.gone %}
        -- The rejected rows of a copy that is gone are known.
        and coalesce(place not in ('{{ plan.gone | join("', '") }}'), true)
        {%- endif %}
    union all
    select
        concat(place, '-unchanged'),
        place,
        place,
        'unknown',
        null,
        null,
        'unchanged: these rows are as in the copy before',
        null,
        sum(copies)

    from compared_rows
    where outcome = 'unchanged'
    group by place

),

described as (

    select
        identity,
        place,
        kind,
        image,
        before_image,
        cast(copy as timestamp) as changed_at,
        reject_reason,
        warnings,
        cast(source_rows as int) as source_rows

    from paired_changes
    {%- if plan and plan.revised %}
    union all
    -- What this copy showed until it or the copy before it was replaced, or it was taken out.
    select
        known.change_id,
        known.change_seq,
        'unknown',
        coalesce(known.`after`, known.`before`),
        null,
        known.changed_at,
        'superseded: the copies no longer show this change',
        null,
        0

    from {{ this }} as known
    left anti join {{ "(select explode(array(identity, concat('erased-', md5(identity)))) as identity from paired_changes) as"
        if plan.has_erasures }} paired_changes on known.change_id = paired_changes.identity
    where
        {{ afterimage._copies_place_of_change() }} in ('{{ plan.revised | join("', '") }}')
        and ({{ afterimage._copies_ids_between(plan.revised[0], plan.revised[-1]) }})
        and coalesce(known.reject_reason, '') not like 'superseded:%'
        -- Whose raw rows were erased too, no copy shows, and is right.
        and not (startswith(known.change_id, 'erased-') and known.source_rows = 0 and not known.operation <=> 'delete')
        -- Of a copy that is gone, only what it changed and what it did not can be worked out again.
        and (
            coalesce(known.reject_reason, 'unchanged:') like 'unchanged:%'
            or {{ afterimage._copies_place_of_change() }} not in ('{{ plan.gone | join("', '") }}')
        )
    {%- endif %}

)
{%- endmacro -%}
