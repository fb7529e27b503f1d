{#- The CTEs from `identified` to `distinct_rows`: each row once, with its commit time, which may come from the UOW
    table. -#}
{%- macro _db2_distinct_rows(uow, time_zone) -%}
{%- if uow is not none -%}
{%- set found = {} -%}
{%- for column in afterimage._relation_columns(uow) -%}
    {%- do found.update({column.name | upper: column}) -%}
{%- endfor %}

commits as (

    select
        commit_place,
        max(committed_at) as committed_at

    from (
        select
            {{ afterimage._db2_place(afterimage._hex_digits(found['IBMSNAP_COMMITSEQ'])) }} as commit_place,
            {{ afterimage._in_utc(afterimage._db2_time(found['IBMSNAP_LOGMARKER']), time_zone) }} as committed_at

        from {{ uow }}
        where {{ afterimage._db2_is_place(afterimage._hex_digits(found['IBMSNAP_COMMITSEQ'])) }}
    ) as units_of_work
    group by commit_place

),
{%- endif %}

timed as (

    select
        identified.*,
        {{ 'coalesce(identified.landed_at, commits.committed_at)' if uow is not none else 'identified.landed_at' }}
            as committed_at

    from identified
    {%- if uow is not none %}
    left outer join commits
        on identified.commit_place = commits.commit_place
    {%- endif %}

),

-- A row delivered twice counts once: the copy with the first time.
copies as (

    select
        *,
        row_number() over (
            partition by row_group, kind, image_hash
            order by committed_at asc nulls last, operation_code asc, commit_digits asc, intent_digits asc
        ) as copy_number,
        count(*) over (partition by row_group, kind, image_hash) as copies,
        max(committed_at) over (partition by row_group, kind, image_hash) as last_time

    from timed

),

distinct_rows as (

    select
        row_group,
        kind,
        reject_reason,
        key_hash,
        image_hash,
        commit_place,
        intent_place,
        image,
        landed_before,
        has_before_values,
        committed_at as changed_at,
        last_time,
        copies,
        -- If an update is written as two rows with one place, the delete comes first.
        array_position(array('load', 'delete', 'insert', 'update', 'unknown'), kind) as row_rank

    from copies
    where copy_number = 1

)
{%- endmacro -%}
