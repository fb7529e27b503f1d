{#- The query of a run that knows beforehand that nothing is new. The full statement would return the same, but
    Spark would spend a second planning it. It has the columns of _staged, for a model that unites several sources. -#}
{%- macro _no_new_changes(further_columns=[]) -%}
select {{ afterimage._quoted_list(afterimage._contract_columns() + ['ingested_at'] + further_columns) }}
    {{- ', change_seq as afterimage_known_seq' if afterimage._tracks_reads() }}
from {{ this }}
where false
{%- endmacro -%}
