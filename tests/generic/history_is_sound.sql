{#- All that makes a history sound, in one scan: the rules of history_has_no_overlaps, one_current_version_per_key and
    versions_chain, and that each version has a history_id of its own. A row names the rules that it breaks. -#}
{% test history_is_sound(model, unique_key, meta_column_names=none) %}

select *
from {{ afterimage._versions_by_rules('history_is_sound', model, unique_key, meta_column_names) }}
where size(afterimage_broken_rules) > 0

{% endtest %}
