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
            ref('openedge_items__cdc'),
            unique_key=['Item-Num'],
            tracking=ref('openedge__cdc_change_tracking'),
            source_table_number=12,
            policy_level=var('unit_policy_level', none),
            partition_resets=var('unit_partition_resets', 'reject'),
            split_order=var('unit_split_order', 'zero_first')
        )
    }}
) as staged
