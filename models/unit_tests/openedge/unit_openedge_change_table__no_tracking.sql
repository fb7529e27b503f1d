{#- dbt cannot write down a type whose fields have hyphens in their names, hence JSON. -#}
select
    change_id,
    change_seq,
    operation,
    to_json(before) as before_json,
    to_json(after) as after_json,
    changed_columns,
    absent_columns,
    changed_at,
    transaction_id,
    reject_reason,
    warnings,
    source_rows

from (
    {{ afterimage.openedge_change_table(ref('openedge_reps__cdc'), unique_key=['Sales-Rep']) }}
) as staged
