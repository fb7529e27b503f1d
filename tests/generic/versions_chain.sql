{#- Versions count 1, 2, 3, … and each begins where the one before it ended, unless that one was closed by a delete, a
    truncate or a key change: then it begins there or later. -#}
{% test versions_chain(model, unique_key, meta_column_names=none) %}

select *
from {{ afterimage._versions_by_rules('versions_chain', model, unique_key, meta_column_names) }}
where array_contains(afterimage_broken_rules, 'versions_chain')

{% endtest %}
