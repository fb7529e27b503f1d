{#- Versions count 1, 2, 3, … and each begins where the one before it ended, unless that one was closed by a delete, a
    truncate or a key change: then it begins there or later. -#}
{% test versions_chain(model, unique_key, meta_column_names=none) %}
    {%- do afterimage._check_names('versions_chain', 'unique_key', unique_key, required=true) -%}
    {%- set meta = afterimage._columns_of_history('versions_chain', model, meta_column_names) %}
    {%- set w -%}
partition by {{ afterimage._quoted_list(unique_key) }} order by {{ meta.version }}
    {%- endset %}

with neighbours as (

    select
        *,
        row_number() over ({{ w }}) as afterimage_place,
        lag({{ meta.valid_to }}) over ({{ w }}) as afterimage_last_to,
        lag({{ meta.valid_to_seq }}) over ({{ w }}) as afterimage_last_seq,
        lag({{ meta.closed_by }}) over ({{ w }}) as afterimage_last_cause

    from {{ model }}

)

select *
from neighbours
where
    {{ meta.version }} <> afterimage_place
    or ({{ meta.closed_by }} is null) <> ({{ meta.valid_to_seq }} is null)
    or {{ meta.closed_by }} not in ('update', 'delete', 'truncate', 'key_change')
    or (
        afterimage_place > 1
        and case
            when afterimage_last_cause = 'update'
                then not (
                    afterimage_last_to <=> {{ meta.valid_from }}
                    and afterimage_last_seq <=> {{ meta.valid_from_seq }}
                )
            else coalesce(
                afterimage_last_to > {{ meta.valid_from }} or afterimage_last_seq > {{ meta.valid_from_seq }}, true
            )
        end
    )

{% endtest %}
