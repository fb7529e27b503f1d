{#- Each key appears once, and none of its columns is NULL. -#}
{% test one_row_per_key(model, unique_key) %}
    {%- do afterimage._check_names('one_row_per_key', 'unique_key', unique_key, required=true) %}

select
    {{ afterimage._quoted_list(unique_key) }},
    count(*) as rows_of_the_key

from {{ model }}
group by {{ afterimage._quoted_list(unique_key) }}
having
    count(*) > 1
    {%- for key in unique_key %}
    or {{ afterimage._quote(key) }} is null
    {%- endfor %}

{% endtest %}
