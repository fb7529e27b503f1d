{#- The last step of every source macro: the change contract's columns in order, and in an incremental run only the
    rows that are new or have gained something (a before-image, a copy), so that `ingested_at` means what it says.
    `more` names columns of a dialect's own that are kept beside the contract's. -#}
{%- macro _staged(changes, more=[]) -%}
    {%- set compared = [
        'change_seq', 'operation', 'before', 'after', 'changed_columns', 'absent_columns', 'changed_at',
        'transaction_id', 'reject_reason', 'warnings', 'source_rows'
    ] -%}
select
    {{ changes }}.change_id,
    {{ changes }}.change_seq,
    {{ changes }}.operation,
    {{ changes }}.`before`,
    {{ changes }}.`after`,
    {{ changes }}.changed_columns,
    {{ changes }}.absent_columns,
    {{ changes }}.changed_at,
    {{ changes }}.transaction_id,
    {{ changes }}.reject_reason,
    {{ changes }}.warnings,
    {{ changes }}.source_rows,
    {%- for column in more %}
    {{ changes }}.{{ column }},
    {%- endfor %}
    timestamp '{{ run_started_at.strftime("%Y-%m-%d %H:%M:%S.%f") }}' as ingested_at

from {{ changes }}
{%- if afterimage._is_incremental() %}
left outer join {{ this }} as known
    on {{ changes }}.change_id = known.change_id
where
    known.change_id is null
    or not (
        {%- for column in compared %}
        {{ changes }}.{{ afterimage._quote(column) }} <=> known.{{ afterimage._quote(column) }}
        {%- if not loop.last %} and{% endif %}
        {%- endfor %}
    )
{%- endif %}
{%- endmacro -%}


{#- NULL-safe equality of some fields of two structs. -#}
{%- macro _same_columns(left, right, columns) -%}
    {%- set conditions = [] -%}
    {%- for column in columns -%}
        {%- do conditions.append(
            left ~ '.' ~ afterimage._quote(column) ~ ' <=> ' ~ right ~ '.' ~ afterimage._quote(column)
        ) -%}
    {%- endfor -%}
    {{ return(conditions | join(' and ')) }}
{%- endmacro -%}


{#- dbt's own asks for the model's table, which an ephemeral model and an inline query do not have. -#}
{%- macro _is_incremental() -%}
    {{ return(this is not none and is_incremental()) }}
{%- endmacro -%}
