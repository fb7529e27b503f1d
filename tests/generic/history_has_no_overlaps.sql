{#- At no moment, by time or by sequence, does a key have two versions, and none ends before it begins. -#}
{% test history_has_no_overlaps(model, unique_key, meta_column_names=none) %}
    {%- do afterimage._check_names('history_has_no_overlaps', 'unique_key', unique_key, required=true) -%}
    {%- set meta = afterimage._columns_of_history('history_has_no_overlaps', model, meta_column_names) %}
    {%- set w -%}
partition by {{ afterimage._quoted_list(unique_key) }} order by {{ meta.version }}
    {%- endset %}

with neighbours as (

    select
        *,
        lead({{ meta.valid_from }}) over ({{ w }}) as afterimage_next_from,
        lead({{ meta.valid_from_seq }}) over ({{ w }}) as afterimage_next_seq

    from {{ model }}

)

select *
from neighbours
where
    {{ meta.valid_to }} < {{ meta.valid_from }}
    or {{ meta.valid_to_seq }} < {{ meta.valid_from_seq }}
    or (afterimage_next_from is not null and coalesce({{ meta.valid_to }} > afterimage_next_from, true))
    or (afterimage_next_seq is not null and coalesce({{ meta.valid_to_seq }} > afterimage_next_seq, true))

{% endtest %}
