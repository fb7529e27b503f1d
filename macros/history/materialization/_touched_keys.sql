{#- The keys that some changes touch, with their change_seq, in a row for each image. If rows of `carrying_stream` took
    values with them to other keys, those keys count as touched. -#}
{%- macro _touched_keys(changes, unique_key, condition='true', carrying_stream=none) -%}
{%- for image in ['`before`', '`after`'] %}
{{ 'union all' if not loop.first }}
select
    {{ afterimage._each(unique_key, image ~ '.{column} as {key}') | join(', ') }},
    change_seq

from {{ changes }} as changes
where {{ image }} is not null and ({{ condition }})
{%- endfor %}
{%- if carrying_stream %}
union all
select
    {{ afterimage._each(unique_key, '`after`.{column} as {key}') | join(', ') }},
    change_seq

from {{ carrying_stream }} as changes
where reject_reason is null and {{ afterimage._is_sparse_move(unique_key) }}
{%- endif %}
{%- endmacro -%}
