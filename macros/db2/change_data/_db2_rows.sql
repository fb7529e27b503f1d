{#- The CTEs from the rows of a CD or CCD table to `distinct_rows`: each row once, judged, with its place and its
    commit time, which may come from the UOW table. Of a row delivered twice the copy with the first time counts.
    `condition` says which rows to read, if not all. -#}
{%- macro _db2_rows(layout, rows, condition, complete, uow=none, time_zone='UTC') -%}
{{ afterimage._db2_read_rows(layout, rows, condition, complete, time_zone) }},
{%- if uow is not none %}

commits as (

    select
        {{ afterimage._db2_place(uow.commitseq) }} as commit_place,
        max({{ afterimage._in_utc(uow.logmarker, time_zone) }}) as committed_at

    from {{ uow.relation }}
    where {{ afterimage._db2_is_place(uow.commitseq) }}
    group by 1

),
{%- endif %}

timed as (

    select
        identified.*,
        {{ 'coalesce(identified.landed_at, commits.committed_at)' if uow is not none else 'identified.landed_at' }} as changed_at,
        -- If an update is written as two rows with one place, the delete comes first.
        array_position(array('load', 'delete', 'insert', 'update', 'unknown'), kind) as row_rank

    from identified
    {%- if uow is not none %}
    left outer join commits
        on identified.commit_place = commits.commit_place
    {%- endif %}

),

{{ afterimage._distinct_rows(
    'timed', by='row_group, kind, image_hash',
    first='changed_at asc nulls last, operation_code asc, commit_digits asc, intent_digits asc', time='changed_at'
) }}
{%- endmacro -%}
