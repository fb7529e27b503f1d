{#- index_sync for a capture table, whose order is known. -#}
{%- macro _db2_sync_by_capture_table(relation, unique_key, synchpoint, before_prefix, register) -%}
    {%- set layout = afterimage._db2_layout('index_sync', relation, unique_key, none, before_prefix) -%}
    {%- set digits = '^([0-9A-Fa-f]{20}|[0-9A-Fa-f]{32})$' -%}
    {%- if synchpoint is not none and not modules.re.match(digits, synchpoint | string) -%}
        {%- do exceptions.raise_compiler_error(
            "index_sync: `synchpoint` must be hex(IBMSNAP_COMMITSEQ) of the last commit in the index, 20 or 32 hex"
            ~ " digits. Got: " ~ synchpoint
        ) -%}
    {%- endif -%}
    {%- set is_captured = none if register is none else 'not ' ~ afterimage._db2_has_place(layout) ~ ' or '
        ~ afterimage._db2_place(layout.commitseq) ~ ' <= (' ~ afterimage._db2_captured_up_to(register) ~ ')' -%}
    {#- Load rows have no place: they existed before every commit. -#}
    {%- set is_unread = 'true' if synchpoint is none else "coalesce(commit_place > '"
        ~ ('0' * 32 ~ synchpoint | upper)[-32:] ~ "', kind <> 'load')" -%}
    {%- set keys = afterimage._key_names(layout.unique_key) %}
    {%- set in_order = 'partition by ' ~ keys | join(', ') ~ ', reject_reason, commit_place order by place' -%}
    {%- set has_moved -%}
        has_before_values and not {{ afterimage._has_null_key(layout.unique_key, 'landed_before') }}
        and not ({{ afterimage._same_columns('image', 'landed_before', layout.unique_key) }})
    {%- endset %}
    {#- A row may come again in other words, such as a padded CHAR. It moves a row to or from a key once. -#}
    {%- set one_row = 'row_group, kind, key_hash, if(' ~ has_moved ~ ', '
        ~ afterimage._struct(layout.unique_key, 'landed_before.') ~ ', null)' %}
with

{{ afterimage._db2_rows(layout, relation, is_captured, layout.has_logmarker) }},

-- Each row once.
rows_in_commit as (

    select
        *,
        {{ is_unread }} as is_unread,
        min(if(kind = 'delete', intent_place, null)) over (partition by coalesce(commit_place, row_group)) as first_delete

    from (
        select
            *,
            row_number() over (partition by {{ one_row }} order by image_hash) as form,
            sum(copies) over (partition by {{ one_row }}) as form_copies

        from distinct_rows
    ) as counted_forms
    where form = 1

),

-- What each row does to the number of rows at its key. An update that changed the key also takes one from the old key.
touches as (

    select
        {{ afterimage._each(layout.unique_key, 'image.{column} as {key}') | join(', ') }},
        case when kind = 'delete' then -1 when kind = 'update' and not ({{ has_moved }}) then 0 else 1 end as step,
        -- Such an insert cannot be half of an update of the key, so no row was there.
        kind in ('load', 'insert') and coalesce(first_delete > intent_place, true) as needs_free_key,
        image as before_image,
        image,
        row_rank,
        commit_place,
        intent_place,
        form_copies as copies,
        image_hash,
        is_unread,
        reject_reason

    from rows_in_commit
    union all
    select
        {{ afterimage._each(layout.unique_key, 'landed_before.{column} as {key}') | join(', ') }},
        -1 as step,
        false as needs_free_key,
        landed_before as before_image,
        image,
        0 as row_rank,
        commit_place,
        intent_place,
        0 as copies,
        image_hash,
        is_unread,
        reject_reason

    from rows_in_commit
    where
        kind = 'update'
        and reject_reason is null
        and {{ has_moved }}

),

-- `balance` is by how many rows a key has more than before the commit. In the middle of an update of several rows, a
-- row may come to a key before the earlier row has left it.
counted as (

    select
        *,
        sum(step) over ({{ in_order }} rows between unbounded preceding and current row) as balance,
        last(if(step < 0, null, struct(image, cast(null as array<string>) as unknown_columns)), true) over (
            {{ in_order }} rows between unbounded preceding and 1 preceding
        ) as last_row

    from (
        select
            *,
            struct(coalesce(intent_place, ''), row_rank, image_hash) as place

        from touches
    ) as placed

),

-- At the end of a commit a key has one row or none, in the middle of it two at most. So most commits show whether the
-- key had a row before. If a row came and left, and nothing else shows, the key has after the commit what it had before.
commits as (

    select
        *,
        case
            when change <> 0 then change < 0
            when shows_row then true
            when shows_no_row then false
        end as had_row,
        case
            when ends_with_row or change > 0 then true
            when change < 0 then false
            when shows_row then true
            when shows_no_row then false
        end as has_row

    from (
        select
            {{ keys | join(', ') }},
            reject_reason,
            coalesce(commit_place, '') as commit_no,
            max_by(balance, place) as change,
            max_by(step, place) >= 0 as ends_with_row,
            bool_or(
                balance < 0
                or (balance = 0 and step = 0)
                -- The row that left is not the one that came.
                or if(balance = 0 and step < 0, {{ afterimage._contradicts('last_row') | indent(16) }}, false)
            ) as shows_row,
            max(balance) > 1 or bool_or(needs_free_key and balance = 1) as shows_no_row,
            collect_set(
                if(is_unread, struct(commit_place as IBMSNAP_COMMITSEQ, intent_place as IBMSNAP_INTENTSEQ), null)
            ) as covered_rows,
            sum(if(is_unread, copies, 0)) as source_rows,
            bool_or(is_unread) as is_unread

        from counted
        group by {{ keys | join(', ') }}, reject_reason, commit_place
    ) as commits_of_key

),

keys_touched as (

    select
        {{ keys | join(', ') }},
        reject_reason,
        max_by(has_row, commit_no) filter (where has_row is not null) as has_row,
        min_by(had_row, commit_no) filter (where had_row is not null) as had_row,
        array_sort(flatten(collect_list(covered_rows))) as covered_rows,
        cast(sum(source_rows) as int) as source_rows,
        bool_or(is_unread) as is_unread,
        bool_and(is_unread) as is_new

    from commits
    group by {{ keys | join(', ') }}, reject_reason

),

-- If a key had a row before its first captured change, the table does not go back to the beginning.
missing as (

    select
        coalesce(bool_or(had_row){% if synchpoint is not none %} or bool_and(is_new){% endif %}, false) as lacks_rows

    from keys_touched
    where reject_reason is null

)

select
    {{ afterimage._each(layout.unique_key, '{key} as {column}') | join(', ') }},
    -- If the rows leave open whether the key has a row, it may have one: the index must not lose it.
    case
        when reject_reason is not null then null
        when coalesce(has_row, missing.lacks_rows) then 'upsert'
        else 'delete'
    end as action,
    covered_rows,
    source_rows,
    reject_reason

from keys_touched
cross join missing
where is_unread
{%- endmacro -%}


{#- The last commit that Capture has written completely. It notes its progress in two columns of IBMSNAP_REGISTER. -#}
{%- macro _db2_captured_up_to(register) -%}
    {%- do afterimage._check_columns('index_sync', 'register', register, ['SYNCHPOINT', 'CD_NEW_SYNCHPOINT']) -%}
    {%- set found = {} -%}
    {%- for column in afterimage._relation_columns(register) -%}
        {%- do found.update({column.name | upper: afterimage._db2_place(afterimage._hex_digits(column))}) -%}
    {%- endfor -%}
    {{ return(
        'select max(greatest(' ~ found['SYNCHPOINT'] ~ ', ' ~ found['CD_NEW_SYNCHPOINT'] ~ ')) from ' ~ register
    ) }}
{%- endmacro -%}
