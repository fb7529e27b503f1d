{#- No key has two versions at any moment, by time or by sequence, and no version ends before it begins. -#}
{% test history_has_no_overlaps(model, unique_key, meta_column_names=none) %}

select *
from {{ afterimage._versions_by_rules('history_has_no_overlaps', model, unique_key, meta_column_names) }}
where array_contains(afterimage_broken_rules, 'history_has_no_overlaps')

{% endtest %}
