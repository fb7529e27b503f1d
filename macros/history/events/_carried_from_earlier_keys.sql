{#- A query that looks up values still unknown at the key where the row was before. -#}
{%- macro _carried_from_earlier_keys(carried, plan) -%}
select
    later.change_id,
    earlier.carried_by
    {%- for column in plan.sparse %}
    {%- set value = 'value_' ~ loop.index %},
    if(later.{{ value }}.is_known or later.carried_by is null, later.{{ value }}, earlier.{{ value }}) as {{ value }}
    {%- endfor %}

from {{ carried }} as later
left outer join {{ carried }} as earlier
    on later.carried_by = earlier.change_id
{%- endmacro -%}
