{#- The condition that a table is still at the snapshot which the run has read: what another run has committed since
    must not be written over. -#}
{%- macro _is_at_snapshot(relation, snapshot) -%}
{%- if snapshot is none -%}
true
{%- else -%}
{%- set overtaken = model.name ~ ': another run has changed ' ~ relation ~ ' meanwhile. Run again.' -%}
if(
    (select max(snapshot_id) from {{ relation }}.refs where name = 'main') = {{ snapshot }},
    true,
    raise_error({{ afterimage._literal(overtaken) }})
)
{%- endif -%}
{%- endmacro -%}
