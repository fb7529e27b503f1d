{#- The query of a run that knows beforehand that nothing is new. The full statement would return the same, but
    Spark would spend a second planning it. -#}
{%- macro _no_new_changes(further_columns=[]) -%}
select {{ afterimage._quoted_list(afterimage._contract_columns() + ['ingested_at'] + further_columns) }}
from {{ this }}
where false
{%- endmacro -%}
