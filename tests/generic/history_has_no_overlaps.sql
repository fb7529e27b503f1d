{#- At no moment, by time or by sequence, does a key have two versions, and none ends before it begins. -#}
{% test history_has_no_overlaps(model, unique_key, meta_column_names=none) %}

select *
from {{ afterimage._versions_by_rules('history_has_no_overlaps', model, unique_key, meta_column_names) }}
where array_contains(afterimage_broken_rules, 'history_has_no_overlaps')

{% endtest %}
