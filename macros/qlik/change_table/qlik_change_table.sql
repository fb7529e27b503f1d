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
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set new_shape = afterimage._check_drift('qlik_change_table', relation, layout.columns) -%}
    {%- set intake = afterimage._intake(
        'qlik_change_table', layout.unique_key, [afterimage._qlik_side(relation, layout)], new_shape
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {%- set side = intake.sides[0] -%}
    {%- do afterimage._qlik_check_masks(relation, layout, mask_encoding, side) -%}
    {%- do afterimage._qlik_check_key_trades(relation, layout, side) -%}
    {#- The short way doubles the plan. That pays off for many rows, but not in an incremental run or a unit test, nor
        for one of many small tables. -#}
    {%- set has_short_way = not (
        afterimage._is_incremental()
        or relation.identifier.startswith('__dbt__cte__')
        or (flags.WHICH in ['run', 'build'] and afterimage._is_small(side.rows))
    ) %}
with

{{ afterimage._qlik_change_rows(side, layout) }},
{%- if has_short_way %}

{{ afterimage._qlik_plain_changes() }},
{%- endif %}

{{ afterimage._qlik_pairs(layout, has_short_way) }},

{{ afterimage._qlik_masked(layout, mask_encoding, has_short_way) }},

{{ afterimage._qlik_described(layout) }},

{#- An update has two rows, and one may be deleted before the other is read again. -#}
{%- set other_half = afterimage._keep_other_half(layout.unique_key) %}
{#- Loads have no change_seq. If a key has several, the latest wins. It gets the change_id without a number, so it
    replaces an earlier load even if that one is no longer landed. -#}
{{ afterimage._finish(
    intake, layout.columns, layout.types, layout.unique_key,
    lacks=['changed_by'],
    ties={
        'within': ['group_hash', 'change_group'],
        'alone': 'is_alone' if has_short_way,
        'identity_order': "is_orphan asc, if(kind = 'load', last_time, null) desc nulls last, "
            ~ "if(kind = 'load', null, source_time) asc nulls last, if(kind = 'load', null, image_hash) asc, image_hash desc",
        'order': "if(kind = 'load', last_time, null) desc nulls last, if(kind = 'load', image_hash, null) desc, "
            ~ "source_time asc nulls first, image_hash asc",
    },
    known=dict(
        other_half, carried=other_half.carried + ['last_time'],
        kept=dict(other_half.kept, **afterimage._keep_first_time(intake, layout.columns, layout.types)),
        unchanged_if='(' ~ other_half.unchanged_if ~ ') or ('
            ~ afterimage._is_older_load(intake, layout.columns, layout.types) ~ ')'
    ),
    old_key='before_image is not null'
) }}
{%- endmacro -%}


{#- The short way for changes that need no pairing: `plain`. In a full build it spares nearly all rows the windows
    of _qlik_pairs. Every group must be found either here or among `complex_groups`, never in both or neither: a
    change to one condition needs the same change to the other. -#}
{%- macro _qlik_plain_changes() -%}
{%- set by_kind = 'partition by group_hash, change_group order by kind' -%}
-- Nearly every change is alone, or next to its only before-image, so the row before it has all it needs.
neighbours as (

    select
        *,
        count(*) over ({{ by_kind }} rows between unbounded preceding and unbounded following) as rows_in_group,
        lag(image) over ({{ by_kind }}) as image_before,
        lag(kind = 'before_image' and reject_reason is null) over ({{ by_kind }}) as has_before_image

    from grouped

),

classified_groups as (

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
        rows_in_group as source_rows,
        plain_case <> 'alone' as has_before_image,
        true as has_after_image,
        true as is_alone

    from classified_groups
    where plain_case is not null

),

-- The other groups: those with copies, ties or orphans. No change_group is empty. The condition on an empty one only
-- makes this reader need the same columns as the other two, so that Spark shuffles the rows once for all three.
complex_groups as (

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
            change_group = '' and to_json(struct(has_seq, source_time, transaction_id, change_mask, image)) = ''
        ) > 0

)
{%- endmacro -%}
