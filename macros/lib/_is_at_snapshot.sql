{#- The condition that a table is still at the snapshot that the run has read. A run must not overwrite what another
    run has committed since. -#}
{%- macro _is_at_snapshot(relation, snapshot) -%}
{%- if snapshot is none -%}
true
{%- else -%}
{%- set overtaken = model.name ~ ': another run has changed ' ~ relation ~ '. Run again, one run at a time.' -%}
if(
    (select max(snapshot_id) from {{ relation }}.refs where name = 'main') = {{ snapshot }},
    true,
    raise_error({{ afterimage._literal(overtaken) }})
)
{%- endif -%}
{%- endmacro -%}
