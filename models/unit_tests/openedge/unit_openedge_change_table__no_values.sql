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
    to_json(tracking) as tracking,
    source_rows

from (
    {{
        afterimage.openedge_change_table(
            ref('openedge_bins'),
            unique_key=['Bin-Num'],
            tracking=ref('openedge__cdc_change_tracking'),
            source_table_number=20,
            policy_level=1
        )
    }}
) as staged
