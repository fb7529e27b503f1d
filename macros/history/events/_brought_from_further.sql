{#- A query that looks up values still unknown at the key where the row was before. -#}
{%- macro _brought_from_further(brought, plan) -%}
select
    later.change_id,
    earlier.brought_by
    {%- for column in plan.sparse %}
    {%- set value = 'value_' ~ loop.index %},
    if(later.{{ value }}.is_known or later.brought_by is null, later.{{ value }}, earlier.{{ value }}) as {{ value }}
    {%- endfor %}

from {{ brought }} as later
left outer join {{ brought }} as earlier
    on later.brought_by = earlier.change_id
{%- endmacro -%}
