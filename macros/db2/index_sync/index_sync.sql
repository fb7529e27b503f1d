{#- Log of a text index, or the capture table in its place -> the keys to write to the index or to remove from it.
    Arguments: index_sync.yml. -#}
{%- macro index_sync(
    relation,
    unique_key,
    base=none,
    synchpoint=none,
    before_prefix='X',
    time_zone='UTC',
    register=none
) -%}
    {%- do afterimage._check_names('index_sync', 'unique_key', unique_key, required=true) -%}
    {%- if afterimage._needs_placeholder([relation, base, register]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- for name in unique_key if name | lower in ['action', 'covered_rows', 'source_rows', 'reject_reason'] -%}
        {%- do exceptions.raise_compiler_error(
            "index_sync: `unique_key` has a column with the name of a column of the result; rename it in a view over "
            ~ relation ~ ". Got: " ~ name
        ) -%}
    {%- endfor -%}
    {%- set names = afterimage._relation_columns(relation) | map(attribute='name') | map('upper') | list -%}
    {%- if 'IBMSNAP_OPERATION' in names -%}
        {%- if base is not none -%}
            {%- do exceptions.raise_compiler_error(
                "index_sync: `base` must be left out, because " ~ relation ~ " is a capture table and holds the rows"
                ~ " itself. Got: " ~ base
            ) -%}
        {%- endif -%}
        {{ return(afterimage._db2_sync_by_capture_table(
            relation, unique_key, synchpoint, before_prefix, register
        )) }}
    {%- endif -%}
    {%- if base is none or synchpoint is not none or register is not none -%}
        {%- do exceptions.raise_compiler_error(
            "index_sync: for a log table, `base` must be the relation with the current rows, and `synchpoint` and"
            ~ " `register` must be left out. Got: base " ~ base ~ ", synchpoint " ~ synchpoint ~ ", register " ~ register
        ) -%}
    {%- endif -%}
    {{ return(afterimage._db2_sync_by_log(relation, unique_key, base, time_zone)) }}
{%- endmacro -%}


{%- macro _db2_sync_by_log(relation, unique_key, base, time_zone) -%}
    {%- set layout = afterimage._db2_log_layout('index_sync', relation, unique_key, base, none, time_zone) %}
with

{{ afterimage._db2_log_keys(layout, relation, layout.base, time_zone) }}

select
    {{ afterimage._each(layout.unique_key, '{key} as {column}') | join(', ') }},
    if(is_delete, 'delete', 'upsert') as action,
    transform(entries, e -> struct(e.log_time as TIME, e.operation_code as OPERATION)) as covered_rows,
    log_rows as source_rows,
    cast(null as string) as reject_reason

from settled
union all
select
    {{ afterimage._each(layout.unique_key, '{key} as {column}') | join(', ') }},
    cast(null as string) as action,
    array(struct(log_time as TIME, operation_code as OPERATION)) as covered_rows,
    log_rows as source_rows,
    reject_reason

from rejected_rows
{%- endmacro -%}
