{#- The CTEs from the rows of a CD or CCD table to `distinct_rows`: each row once, judged, with its place and its
    commit time. `condition` says which rows to read, if not all. -#}
{%- macro _db2_rows(layout, rows, condition, complete, uow=none, time_zone='UTC') -%}
{{ afterimage._db2_read_rows(layout, rows, condition, complete, time_zone) }},

{{ afterimage._db2_distinct_rows(uow, time_zone) }}
{%- endmacro -%}
