{#- A summary of the changes that a condition selects: one row, whatever their number. -#}
{%- macro _pending_changes(stream, condition, options) -%}
    {%- set query -%}
        select to_json(named_struct(
            'changes', count(*),
            'max_seq', max(change_seq),
            {%- if condition %}
            'min_seq', min({{ afterimage._shared_place('change_seq') }}),
            'min_rejected_seq', min(
                if(
                    reject_reason is not null
                    and (`before` is not null or `after` is not null or operation = 'truncate'),
                    change_seq,
                    null
                )
            ),
            {%- endif %}
            'min_time', unix_micros(min(coalesce(changed_at, {{ options.load_valid_from }}))),
            'truncates', count_if(operation = 'truncate'),
            'ends', count_if(reject_reason is null and {{ afterimage._ends_row_in_transaction(options.unique_key) }}),
            'first_ender', min(if({{ afterimage._ends_row_in_transaction(options.unique_key) }}, transaction_id, null)),
            'last_ender', max(if({{ afterimage._ends_row_in_transaction(options.unique_key) }}, transaction_id, null)),
            'sparse_moves', count_if(reject_reason is null and {{ afterimage._is_sparse_move(options.unique_key) }}),
            'movable', count_if({{ afterimage._has_movable_place('change_seq') }}),
            'sparse_columns', array_distinct(flatten(collect_set(absent_columns))),
            'runs', sort_array(collect_set(unix_micros(ingested_at)))
        ), map('ignoreNullFields', 'false')) as summary

        from {{ stream }} as changes
        where {{ condition or 'true' }}
    {%- endset -%}
    {{ return(fromjson(afterimage._value(query))) }}
{%- endmacro -%}
