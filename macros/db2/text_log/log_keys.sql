{#- The CTEs from the rows of the log to `settled`, one row per key with the result of its log rows, and
    `rejected_rows`. -#}
{%- macro _db2_log_keys(layout, relation, base, time_zone) -%}
    {%- set keys = layout.key_names | join(', ') -%}
    {%- set base_keys = [] -%}
    {%- set text_keys = [] -%}
    {%- for column in layout.unique_key -%}
        {%- set type = layout.types[column] -%}
        {%- do base_keys.append(afterimage._db2_log_key('base.' ~ afterimage._quote(column), type)) -%}
        {%- do text_keys.append(column) if type == 'string' -%}
    {%- endfor -%}
    {%- set base_row = afterimage._struct(
        layout.columns, 'base.', text_keys, afterimage._db2_log_key('base.{column}', 'string')
    ) -%}
    {%- set named_keys = afterimage._each(layout.unique_key, '{name}, {key}') -%}
log_entries as (

    select
        {%- for column in layout.log_keys %}
        {%- set type = layout.types[layout.unique_key[loop.index0]] %}
        {{ afterimage._db2_log_key('try_cast(' ~ afterimage._quote(column) ~ ' as ' ~ type ~ ')', type) }}
            as {{ layout.key_names[loop.index0] }},
        {%- endfor %}
        try_cast({{ layout.operation }} as int) as operation_code,
        {{ afterimage._in_utc(layout.time, time_zone) }} as logged_at,
        {{ layout.time }} as log_time,
        {{ layout.operation }} as landed_operation,
        {{ layout.landed_time }} as landed_time,
        {{ afterimage._key_hash(afterimage._struct(layout.log_keys)) }} as landed_key_hash

    from {{ relation }}

),

classified as (

    select
        *,
        case
            when coalesce(operation_code not in (0, 1, 2), true)
                then concat('unknown operation: OPERATION ', coalesce(cast(landed_operation as string), 'NULL'))
            when logged_at is null
                then concat('no TIME: ', coalesce(cast(landed_time as string), 'NULL'))
            when {{ afterimage._each(layout.unique_key, '{key} is null') | join(' or ') }}
                then {{ afterimage._null_key_reason(layout.log_keys) }}
        end as reject_reason

    from log_entries

),

rejected_rows as (

    select
        row_hash,
        max(operation_code) as operation_code,
        max(logged_at) as logged_at,
        max(log_time) as log_time,
        max(reject_reason) as reject_reason,
        max(landed_operation) as landed_operation,
        max(landed_time) as landed_time,
        {{ afterimage._each(layout.unique_key, 'max({key}) as {key}') | join(', ') }},
        cast(count(*) as int) as log_rows

    from (
        select
            *,
            md5({{ afterimage._exact_json('struct(landed_operation, landed_time, landed_key_hash)') }}) as row_hash

        from classified
        where reject_reason is not null
    ) as malformed
    group by row_hash

),

-- The last row of a key by TIME counts. If a delete and another change share the last TIME, their order is unknown.
collapsed as (

    select
        *,
        {{ afterimage._key_hash('named_struct(' ~ named_keys | join(', ') ~ ')') }} as key_hash,
        exists(last_operations, code -> code = 2) as says_delete,
        exists(last_operations, code -> code < 2) as says_row

    from (
        select
            {{ keys }},
            max(logged_at) as last_time,
            max_by(times_of_key.same_time, logged_at) as last_operations,
            array_sort(collect_list(struct(logged_at, operation_code, log_time))) as entries,
            cast(count(*) as int) as log_rows

        from (
            select
                *,
                collect_set(operation_code) over (partition by {{ keys }}, logged_at) as same_time

            from classified
            where reject_reason is null
        ) as times_of_key
        group by {{ keys }}
    ) as grouped

),

base_rows as (

    select
        {%- for key in base_keys %}
        {{ key }} as base{{ layout.key_names[loop.index0] }},
        {%- endfor %}
        {{ base_row }} as base_row,
        row_number() over (
            partition by {{ base_keys | join(', ') }} order by {{ afterimage._exact_json(base_row) }}
        ) as base_number,
        count(*) over (partition by {{ base_keys | join(', ') }}) as base_count

    -- The log names few of the keys.
    from {{ base }} as base
    left semi join collapsed
        on
            {%- for key in base_keys %}
            {{ key }} = collapsed.{{ layout.key_names[loop.index0] }}
            {%- if not loop.last %} and{% endif %}
            {%- endfor %}

),

settled as (

    select
        collapsed.*,
        base_rows.base_row,
        case
            when collapsed.says_delete and collapsed.says_row then base_rows.base_row is null
            when collapsed.says_delete then true
            -- The row has gone since it was logged: there is nothing to write, and its delete is still to come.
            else base_rows.base_row is null
        end as is_delete,
        case
            when collapsed.says_delete and collapsed.says_row
                then 'a delete and another change have one TIME: the base settles it'
            when collapsed.says_delete and base_rows.base_row is not null
                then 'deleted by the log, yet the base has the row'
            when collapsed.says_row and base_rows.base_row is null
                then 'the base has no row of this key: read as a delete'
            when base_rows.base_count > 1
                then 'the base has several rows of this key'
        end as base_warning

    from collapsed
    left outer join base_rows
        on
            {{ afterimage._each(layout.unique_key, 'collapsed.{key} = base_rows.base{key}') | join(' and ') }}
            and base_rows.base_number = 1

)
{%- endmacro -%}


{#- A column of the key without trailing blanks. Some landings pad CHAR to its length and others do not, and Db2
    compares texts as if all were padded. -#}
{%- macro _db2_log_key(expression, type) -%}
    {{ return('rtrim(' ~ expression ~ ')' if type == 'string' else expression) }}
{%- endmacro -%}
