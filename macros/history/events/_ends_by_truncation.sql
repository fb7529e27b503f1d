{#- Every row that a key was given meets the next truncation. If it ended earlier, the truncation does nothing to
    it. -#}
{%- macro _ends_by_truncation(rows_given, plan) -%}
{%- set start = 'greatest(change_seq, start_seq)' if plan.is_rebuilt else 'change_seq' -%}
select
    {{ plan.key_names | join(', ') }},
    next_truncation.change_seq,
    9 as event_rank,
    cast(null as timestamp) as load_time,
    next_truncation.change_id,
    'truncate' as operation,
    'truncate' as ended_by,
    false as is_row,
    if(true, null, image) as image,
    cast(null as array<string>) as unknown_columns,
    cast(null as string) as arrived_by,
    if(true, null, before_image) as before_image,
    next_truncation.changed_at,
    next_truncation.transaction_id
    {%- if plan.names_user %},
    next_truncation.changed_by
    {%- endif %}
    {%- if plan.is_rebuilt %},
    start_seq,
    false as is_known,
    cast(null as int) as version_base
    {%- endif %}

from (
    select
        rows_given.*,
        try_element_at(
            filter(truncations, t -> t.change_seq >= {{ start }}), 1
        ) as next_truncation

    from {{ rows_given }} as rows_given
    cross join truncations
    where rows_given.is_row and size(truncations) > 0
) as met
where next_truncation is not null
{%- endmacro -%}
