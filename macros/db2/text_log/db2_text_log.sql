{#- Log table of a Db2 text index -> change contract. Arguments: db2_text_log.yml. -#}
{%- macro db2_text_log(relation, unique_key, base, columns=none, time_zone='UTC') -%}
    {%- set layout = afterimage._db2_log_layout('db2_text_log', relation, unique_key, base, columns, time_zone) -%}
    {%- if layout is none -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set new_shape = afterimage._check_drift('db2_text_log', layout.base, layout.columns, raw_table=relation) -%}
    {%- set keys = layout.unique_key -%}
    {#- Each key has one row. Every run that finds landed rows writes it again. The base may land before or after the
        log. -#}
    {%- set intake = afterimage._intake(
        'db2_text_log', keys, [{'relation': relation}, {'relation': layout.base}], new_shape, whole=true,
        made_by={'order of unique_key': keys | map('lower') | join(', ')}, read_by={'time_zone': time_zone}
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
        base_row is not null as base_has_row,
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
        false as base_has_row,
        reject_reason,
        cast(null as array<string>) as warnings,
        log_rows as source_rows

    from rejected_rows

),

{#- An earlier delete that is read again, once the last row has left the log, does not end a row that the base has. The
    time alone does not say what is earlier: the clock may have been set back, or the time zone corrected. -#}
{%- set is_older_delete -%}
known.reject_reason is null
    and known.operation = 'load'
    and changes.operation = 'delete'
    and changes.base_has_row
    and known.changed_at > changes.changed_at
{%- endset %}
{{ afterimage._finish(
    intake, layout.columns, layout.types, layout.unique_key,
    lacks=['before_image', 'changed_columns', 'absent_columns', 'transaction_id', 'changed_by'],
    known={'unchanged_if': is_older_delete, 'carried': ['base_has_row']}
) }}
{%- endmacro -%}


{#- Checks the arguments of db2_text_log and index_sync, and says what the log and its base are like; none while their
    columns cannot be read:
    - `base`: all its rows, as one that a sample leaves out would count as deleted,
    - `columns`, `unique_key`, `types`: of the base,
    - `operation`, `landed_time`, `time`: SQL for the log's columns, the time also as a timestamp,
    - `log_keys`, `key_names`: the log's key columns (PK01, …), and their names between the CTEs. -#}
{%- macro _db2_log_layout(macro_name, relation, unique_key, base, columns, time_zone) -%}
    {%- do afterimage._check_names(macro_name, 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_names(macro_name, 'columns', columns) -%}
    {%- do afterimage._check_text(macro_name, 'time_zone', time_zone) -%}
    {%- if afterimage._needs_placeholder([relation, base]) -%}
        {{ return(none) }}
    {%- endif -%}

    {%- set log = {} -%}
    {%- set numbered = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do log.update({column.name | upper: column}) -%}
        {%- set number = (column.name | upper)[2:] -%}
        {%- if (column.name | upper).startswith('PK') and number.isdigit() -%}
            {%- do numbered.update({number | int: column.name}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set log_keys = numbered | dictsort | map('last') | list -%}
    {%- if 'OPERATION' not in log or 'TIME' not in log or not log_keys -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ relation ~ " must have the columns OPERATION, TIME and PK01 (PK02, …). Give the log"
            ~ " table of the text index; for a CD or CCD table use db2_change_data. Got: " ~ (log.values() | map(attribute='name') | list)
        ) -%}
    {%- endif -%}
    {%- if log_keys | length != unique_key | length -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `unique_key` must name one column of the base for each of " ~ log_keys ~ ", in this order."
            ~ " Got: " ~ unique_key
        ) -%}
    {%- endif -%}

    {%- set base_columns = afterimage._relation_columns(base) -%}
    {%- set found = base_columns | map(attribute='name') | list -%}
    {%- if not found -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": `base` must be an existing table with the current rows of the source table. Got: " ~ base
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_known(macro_name, 'columns', columns, found) -%}
    {%- set data = afterimage._match_column_case(columns, found) if columns else found -%}
    {%- do afterimage._check_known(macro_name, 'unique_key', unique_key, data) -%}

    {{ return({
        'base': afterimage._whole(base),
        'columns': data,
        'unique_key': afterimage._match_column_case(unique_key, data),
        'types': afterimage._column_types(base_columns),
        'operation': afterimage._quote(log['OPERATION'].name),
        'landed_time': afterimage._quote(log['TIME'].name),
        'time': afterimage._db2_time(log['TIME']),
        'log_keys': log_keys,
        'key_names': afterimage._key_names(log_keys),
    }) }}
{%- endmacro -%}
