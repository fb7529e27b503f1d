{#- Log table of a Db2 text index -> change contract. Arguments: db2_text_log.yml. -#}
{%- macro db2_text_log(relation, unique_key, base, columns=none, time_zone='UTC') -%}
    {%- set layout = afterimage._db2_log_layout('db2_text_log', relation, unique_key, base, columns, time_zone) -%}
    {%- if layout is none -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set new_columns = afterimage._check_drift('db2_text_log', base, layout.columns) -%}
    {%- set keys = layout.unique_key -%}
    {#- Each key has one row, which any run with news writes again. The base may land before or after the log. -#}
    {%- set intake = afterimage._intake(
        'db2_text_log', keys, [{'relation': relation}, {'relation': base}], new_columns, whole=true
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif %}
with

{{ afterimage._db2_log_keys(layout, intake.sides[0].rows, intake.sides[1].rows, time_zone) }},

{#- The log gives only a row's key, so each key has one row here, which every run writes again. It has the place of a
    full-load row, because there is nothing to order. #}
described as (

    select
        concat('key-', key_hash) as identity,
        '' as place,
        if(is_delete, 'delete', 'load') as kind,
        if(
            is_delete,
            named_struct(
                {%- for column in layout.columns %}
                {{ afterimage._literal(column) }},
                {% if column in keys -%}
                cast({{ layout.key_names[keys.index(column)] }} as {{ layout.types[column] }})
                {%- else -%}
                cast(null as {{ layout.types[column] }})
                {%- endif %}{{ ',' if not loop.last }}
                {%- endfor %}
            ),
            base_row
        ) as image,
        last_time as changed_at,
        cast(null as string) as reject_reason,
        array_compact(array(
            if(
                is_delete,
                'the log has keys only: what the row was is unknown',
                'the log has keys only: after is the present row of the base'
            ),
            base_warning
        )) as warnings,
        log_rows as source_rows

    from settled
    union all
    select
        concat('rejected-', row_hash) as identity,
        '' as place,
        case operation_code when 0 then 'insert' when 1 then 'update' when 2 then 'delete' else 'unknown' end as kind,
        cast(null as {{ afterimage._row_type(layout.columns, layout.types) }}) as image,
        logged_at as changed_at,
        reject_reason,
        cast(null as array<string>) as warnings,
        log_rows as source_rows

    from rejected_rows

),

{{ afterimage._finish(
    intake, layout.columns, layout.unique_key,
    lacks=['before_image', 'changed_columns', 'absent_columns', 'transaction_id', 'changed_by']
) }}
{%- endmacro -%}
