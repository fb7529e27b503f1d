{#- A key has at most one current version, and it is the one that is open. -#}
{% test one_current_version_per_key(model, unique_key, meta_column_names=none) %}

select distinct {{ afterimage._quoted_list(unique_key) }}
from {{ afterimage._versions_by_rules('one_current_version_per_key', model, unique_key, meta_column_names) }}
where array_contains(afterimage_broken_rules, 'one_current_version_per_key')

{% endtest %}
