{#- What a run takes in that knows beforehand that there is nothing new. Of the whole statement Spark would say the
    same, after a second of thought. -#}
{%- macro _nothing_staged(further_columns=[]) -%}
select
    {%- for column in afterimage._contract_columns() + ['ingested_at'] + further_columns %}
    {{ afterimage._quote(column) }}{{ ',' if not loop.last }}
    {%- endfor %}

from {{ this }}
where false
{%- endmacro -%}
