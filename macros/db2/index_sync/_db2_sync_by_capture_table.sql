{#- index_sync for a capture table, whose order is known. -#}
{%- macro _db2_sync_by_capture_table(relation, unique_key, synchpoint, before_prefix) -%}
    {%- set layout = afterimage._db2_layout('index_sync', relation, unique_key, none, before_prefix) -%}
    {%- set digits = '^([0-9A-Fa-f]{20}|[0-9A-Fa-f]{32})$' -%}
    {%- if synchpoint is not none and not modules.re.match(digits, synchpoint | string) -%}
        {%- do exceptions.raise_compiler_error(
            "index_sync: `synchpoint` must be hex(IBMSNAP_COMMITSEQ) of the last commit in the index, 20 or 32 hex"
            ~ " digits. Got: " ~ synchpoint
        ) -%}
    {%- endif -%}
    {%- set is_unread = none if synchpoint is none else 'not (' ~ afterimage._db2_has_place(layout) ~ ' and '
        ~ afterimage._db2_place(layout.commitseq) ~ " <= '" ~ ('0' * 32 ~ synchpoint | upper)[-32:] ~ "')" -%}
    {%- set keys = afterimage._key_names(layout.unique_key) %}
    {%- set has_moved -%}
        has_before_values and not {{ afterimage._has_null_key(layout.unique_key, 'landed_before') }}
        and not ({{ afterimage._same_columns('image', 'landed_before', layout.unique_key) }})
    {%- endset -%}
    {%- set place = "struct(coalesce(commit_place, ''), coalesce(intent_place, ''), row_rank, image_hash)" -%}
    {%- set before -%}
        partition by {{ keys | join(', ') }}, reject_reason order by {{ place }}
        rows between unbounded preceding and 1 preceding
    {%- endset %}
with

{{ afterimage._db2_rows(layout, relation, is_unread, layout.has_logmarker) }},

-- The effect of each row on its key. An update that changed the key also affects the old key.
touches as (

    select
        {{ afterimage._each(layout.unique_key, 'image.{column} as {key}') | join(', ') }},
        kind = 'delete' as is_delete,
        kind = 'insert' or (kind = 'update' and {{ has_moved }}) as arrives,
        image as before_image,
        image,
        row_rank,
        commit_place,
        intent_place,
        copies,
        image_hash,
        reject_reason

    from distinct_rows
    {%- if is_unread %}
    -- Load rows have no place: they existed before every commit.
    where kind <> 'load'
    {%- endif %}
    union all
    select
        {{ afterimage._each(layout.unique_key, 'landed_before.{column} as {key}') | join(', ') }},
        true as is_delete,
        false as arrives,
        landed_before as before_image,
        image,
        0 as row_rank,
        commit_place,
        intent_place,
        0 as copies,
        image_hash,
        reject_reason

    from distinct_rows
    where
        kind = 'update'
        and reject_reason is null
        and {{ has_moved }}

),

-- Within one commit a row may come to a key before the earlier row has left it. The key then lives on.
ordered_touches as (

    select
        *,
        {{ place }} as place,
        last(if(is_delete, null, struct(commit_place, image, cast(null as array<string>) as unknown_columns)), true)
            over ({{ before }}) as last_row,
        last(if(arrives, commit_place, null), true) over ({{ before }}) as last_arrival

    from touches

)

select
    {{ afterimage._each(layout.unique_key, '{key} as {column}') | join(', ') }},
    if(
        reject_reason is null,
        if(
            max_by(
                is_delete and not (
                    coalesce(commit_place = last_arrival and commit_place = last_row.commit_place, false)
                    and {{ afterimage._contradicts('last_row') | indent(20) }}
                ),
                place
            ),
            'delete',
            'upsert'
        ),
        null
    ) as action,
    array_sort(collect_set(
        struct(commit_place as IBMSNAP_COMMITSEQ, intent_place as IBMSNAP_INTENTSEQ)
    )) as covered_rows,
    cast(sum(copies) as int) as source_rows,
    reject_reason

from ordered_touches
group by {{ keys | join(', ') }}, reject_reason
{%- endmacro -%}
