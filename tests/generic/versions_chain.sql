{#- The versions of a key are numbered 1, 2, 3, … Each begins where the one before it ended, or later if that one was
    closed by a delete, a truncate or a key change. -#}
{% test versions_chain(model, unique_key, meta_column_names=none) %}

select *
from {{ afterimage._versions_by_rules('versions_chain', model, unique_key, meta_column_names) }}
where array_contains(afterimage_broken_rules, 'versions_chain')

{% endtest %}
