{#- The query of a run that knows beforehand that nothing is new. The full statement would return the same, but
    Spark would spend a second planning it. -#}
{%- macro _no_new_changes(further_columns=[]) -%}
select
    {%- for column in afterimage._contract_columns() + ['ingested_at'] + further_columns %}
    {{ afterimage._quote(column) }}{{ ',' if not loop.last }}
    {%- endfor %}

from {{ this }}
where false
{%- endmacro -%}
