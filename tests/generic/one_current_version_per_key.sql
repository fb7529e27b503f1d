{#- A key has one current version at the most, and it is the one that is open. -#}
{% test one_current_version_per_key(model, unique_key, meta_column_names=none) %}
    {%- do afterimage._check_names('one_current_version_per_key', 'unique_key', unique_key, required=true) -%}
    {%- set meta = afterimage._columns_of_history('one_current_version_per_key', model, meta_column_names) %}

select
    {{ afterimage._quoted_list(unique_key) }},
    count_if({{ meta.is_current }}) as current_versions,
    count_if({{ meta.is_current }} <> ({{ meta.valid_to_seq }} is null)) as contradictions

from {{ model }}
group by {{ afterimage._quoted_list(unique_key) }}
having count_if({{ meta.is_current }}) > 1 or count_if({{ meta.is_current }} <> ({{ meta.valid_to_seq }} is null)) > 0

{% endtest %}
