{#- Each change has an id of its own, and every row that landed in `relation` is in the stream, as
    every_row_accounted_for checks. One row for each of these rules that is broken. -#}
{% test change_stream_is_complete(model, relation=none) %}

with

ids as (

    select
        change_id,
        count(*) as copies,
        sum(source_rows) as source_rows

    from {{ model }}
    group by change_id

),

totals as (

    select
        coalesce(sum(source_rows), 0) as accounted_rows,
        coalesce(sum(if(change_id is null, copies, 0)), 0) as changes_without_id,
        count_if(change_id is not null and copies > 1) as shared_ids,
        min(if(copies > 1, change_id, null)) as shared_id
        {%- if relation is not none %},
        (select count(*) from {{ relation }}) as landed_rows
        {%- endif %}

    from ids

),

findings as (

    select
        explode(array_compact(array(
            if(changes_without_id > 0, concat(changes_without_id, ' changes have no change_id'), null),
            if(
                shared_ids > 0,
                concat(shared_ids, ' values of change_id are there more than once, one is ', shared_id),
                null
            )
            {%- if relation is not none %},
            if(
                landed_rows <> accounted_rows,
                concat(landed_rows, ' rows landed, ', accounted_rows, ' are accounted for'),
                null
            )
            {%- endif %}
        ))) as finding

    from totals

)

select finding
from findings

{% endtest %}
