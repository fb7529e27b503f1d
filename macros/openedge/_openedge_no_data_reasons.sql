{#- Why a change without values cannot be applied: WHEN branches. -#}
{%- macro _openedge_no_data_reasons(layout) -%}
when kind in ('insert', 'update', 'delete') and not has_change_row
    {%- if layout.policy_level in [2, 3] %}
    then concat(
        'change row missing: the tracking table has this change, of record ',
        coalesce(cast(tracking.record_id as string), '?')
    )
    {%- else %}
    then concat(
        'row touched: record ', coalesce(cast(tracking.record_id as string), '?'),
        ', of which no values were recorded'
    )
    {%- endif %}
when kind in ('field deleted', 'field added') then concat(kind, ': this changed the table, and no row')
when kind = 'partition merged' then concat(kind, ': partition ', coalesce(cast(tracking.partition_id as string), '?'))
{%- if layout.partition_resets == 'reject' %}
when kind in {{ afterimage._openedge_resets() }}
    then concat(
        kind, ': the rows of partition ', coalesce(cast(tracking.partition_id as string), '?'),
        ' are gone, and nothing says which'
    )
{%- endif %}
{%- endmacro -%}
