{#- Every row that landed is in the change stream: as a change, as the before-image of one, as a
    repeat of one, or as a rejected change. `relation` is what the staging model reads. -#}
{% test every_row_accounted_for(model, relation) %}

with totals as (

    select
        (select count(*) from {{ relation }}) as landed_rows,
        (select coalesce(sum(source_rows), 0) from {{ model }}) as accounted_rows

)

select *
from totals
where landed_rows <> accounted_rows

{% endtest %}
