{#- A summary of the changes that a condition selects: one row, whatever their number. -#}
{%- macro _pending_changes(stream, condition, options) -%}
    {%- set ends_row = afterimage._ends_row_in_transaction(options.unique_key) -%}
    {%- set aggregates = {
        'changes': 'count(*)',
        'max_seq': 'max(change_seq)',
        'min_time': 'unix_micros(min(coalesce(changed_at, ' ~ options.load_valid_from ~ ')))',
        'truncates': "count_if(operation = 'truncate')",
        'ends': 'count_if(reject_reason is null and ' ~ ends_row ~ ')',
        'first_ender': 'min(if(' ~ ends_row ~ ', transaction_id, null))',
        'last_ender': 'max(if(' ~ ends_row ~ ', transaction_id, null))',
        'sparse_moves': 'count_if(reject_reason is null and ' ~ afterimage._is_sparse_move(options.unique_key) ~ ')',
        'movable': 'count_if(' ~ afterimage._has_movable_place('change_seq') ~ ')',
        'sparse_columns': 'array_distinct(flatten(collect_set(absent_columns)))',
        'runs': 'sort_array(collect_set(unix_micros(ingested_at)))',
    } -%}
    {%- if condition -%}
        {%- do aggregates.update({
            'min_seq': 'min(' ~ afterimage._shared_place('change_seq') ~ ')',
            'min_rejected_seq': 'min(change_seq) filter (where reject_reason is not null'
                ~ " and (`before` is not null or `after` is not null or operation = 'truncate'))",
        }) -%}
    {%- endif -%}
    {{ return(afterimage._summary(stream ~ ' as changes where ' ~ (condition or 'true'), aggregates)) }}
{%- endmacro -%}
