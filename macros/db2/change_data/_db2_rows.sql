{#- The CTEs from the rows of a CD or CCD table up to `distinct_rows`: each row once, judged, with its place and its
    commit time. Args: layout, relation, complete, uow, time_zone, and the commit after which to read, if not all. -#}
{%- macro _db2_rows(layout, rows, condition, complete, uow=none, time_zone='UTC') -%}
    {%- set keys = layout.unique_key -%}
    {%- set image_columns = layout.image_of.values() | list -%}

source_rows as (

    select
        {{ layout.commitseq }} as commit_digits,
        {{ layout.intentseq }} as intent_digits,
        {{ layout.operation }} as operation_code,
        {{ afterimage._in_utc(layout.logmarker, time_zone) }} as landed_at,
        {{ afterimage._struct(layout.columns) }} as landed_image,
        {{ afterimage._db2_deleted_image(layout) }} as deleted_image,
        {{ afterimage._db2_before_image(layout) }} as landed_before,
        {% if image_columns -%}
        {% for column in image_columns -%}
        {{ afterimage._quote(column) }} is not null{{ ' or ' if not loop.last }}
        {%- endfor %}
        {%- else -%}
        false
        {%- endif %} as has_before_values,
        {{ afterimage._hash_of_values(afterimage._quoted(layout.columns + image_columns)) | indent(8) }} as image_hash

    from {{ rows }}
    {%- if condition %}
    where {{ condition | indent(8) }}
    {%- endif %}

),

placed_rows as (

    select
        *,
        {{ afterimage._db2_is_place('commit_digits') }}
        and {{ afterimage._db2_is_place('intent_digits') }} as has_place,
        -- What a full load has instead of a place in the log: nothing, or zeros.
        coalesce(commit_digits rlike '^0*$', true) or coalesce(intent_digits rlike '^0*$', true) as has_no_place,
        -- The text index's manual calls this column an INTEGER, though it holds letters. A table that has it so can
        -- only hold the digits that the same manual gives the log table.
        case operation_code
            when 'I' then 'insert'
            when '0' then 'insert'
            when 'U' then 'update'
            when '1' then 'update'
            when 'D' then 'delete'
            when '2' then 'delete'
        end as told

    from source_rows

),

read_rows as (

    select
        *,
        if(has_place, {{ afterimage._db2_place('commit_digits') }}, null) as commit_place,
        if(has_place, {{ afterimage._db2_place('intent_digits') }}, null) as intent_place,
        {% if complete -%}
        if(told = 'insert' and has_no_place, 'load', coalesce(told, 'unknown'))
        {%- else -%}
        coalesce(told, 'unknown')
        {%- endif %} as kind,
        if(told = 'delete', deleted_image, landed_image) as image

    from placed_rows

),

judged as (

    select
        *,
        case
            when kind = 'unknown'
                then concat('unknown operation: IBMSNAP_OPERATION ', coalesce(concat('"', operation_code, '"'), 'NULL'))
            when kind <> 'load' and not has_place
                then concat(
                    'no place in the log, which is 10 or 16 bytes: IBMSNAP_COMMITSEQ ', coalesce(commit_digits, 'NULL'),
                    ', IBMSNAP_INTENTSEQ ', coalesce(intent_digits, 'NULL')
                )
            when not {{ afterimage._db2_has_key(layout, 'image') }}
                then 'NULL in the key ({{ keys | join(", ") | replace("'", "\\'") }})'
        end as reject_reason,
        md5({{ afterimage._exact_json(afterimage._struct(keys, 'image.')) }}) as key_hash

    from read_rows

),

-- What is the same row when it is delivered again, were it in the longer form of its place.
identified as (

    select
        *,
        case
            when reject_reason is not null
                then concat('rejected-', md5({{ afterimage._exact_json('struct(
                    coalesce(commit_place, commit_digits) as c,
                    coalesce(intent_place, intent_digits) as i,
                    operation_code, image, image_hash
                )') }}))
            when kind = 'load' then concat('load-', key_hash)
            else concat(commit_place, intent_place)
        end as row_group

    from judged

),

{%- if uow is not none %}
{%- set found = {} -%}
{%- for column in afterimage._relation_columns(uow) -%}
    {%- do found.update({column.name | upper: column}) -%}
{%- endfor %}

commits as (

    select
        commit_place,
        max(committed_at) as committed_at

    from (
        select
            {{ afterimage._db2_place(afterimage._db2_hex(found['IBMSNAP_COMMITSEQ'])) }} as commit_place,
            {{ afterimage._in_utc(afterimage._db2_time(found['IBMSNAP_LOGMARKER']), time_zone) }} as committed_at

        from {{ uow }}
        where {{ afterimage._db2_is_place(afterimage._db2_hex(found['IBMSNAP_COMMITSEQ'])) }}
    ) as units_of_work
    group by commit_place

),
{%- endif %}

timed as (

    select
        identified.*,
        {{ 'coalesce(identified.landed_at, commits.committed_at)' if uow is not none else 'identified.landed_at' }}
            as committed_at

    from identified
    {%- if uow is not none %}
    left outer join commits
        on identified.commit_place = commits.commit_place
    {%- endif %}

),

-- A row delivered twice counts once; of its copies the one with the first time stands.
copies as (

    select
        *,
        row_number() over (
            partition by row_group, kind, image_hash
            order by committed_at asc nulls last, operation_code asc, commit_digits asc, intent_digits asc
        ) as copy_number,
        count(*) over (partition by row_group, kind, image_hash) as copies,
        max(committed_at) over (partition by row_group, kind, image_hash) as last_time

    from timed

),

distinct_rows as (

    select
        row_group,
        kind,
        reject_reason,
        key_hash,
        image_hash,
        commit_place,
        intent_place,
        image,
        landed_before,
        has_before_values,
        committed_at as changed_at,
        last_time,
        copies,
        -- An update that is told by two rows takes the old row away first, should both have one place.
        array_position(array('load', 'delete', 'insert', 'update', 'unknown'), kind) as row_rank

    from copies
    where copy_number = 1

)
{%- endmacro -%}


{#- The row that a delete took away. Capture writes it to the columns and their before-images alike; whatever fills one
    of the two is enough. -#}
{%- macro _db2_deleted_image(layout) -%}
    {%- set fields = [] -%}
    {%- for column in layout.columns -%}
        {%- set name = afterimage._quote(column) -%}
        {%- do fields.append(
            afterimage._literal(column) ~ ', ' ~ (
                'coalesce(' ~ name ~ ', ' ~ afterimage._quote(layout.image_of[column]) ~ ')'
                if column in layout.image_of else name
            )
        ) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}


{#- The row before an update, as far as before-image columns tell: a key without one counts as unchanged, any other
    column as unknown. -#}
{%- macro _db2_before_image(layout) -%}
    {%- if not layout.image_of -%}
        {{ return('if(true, null, ' ~ afterimage._struct(layout.columns) ~ ')') }}
    {%- endif -%}
    {%- set fields = [] -%}
    {%- for column in layout.columns -%}
        {%- set value = afterimage._quote(layout.image_of.get(column, column)) -%}
        {%- if column not in layout.image_of and column not in layout.unique_key -%}
            {%- set value = 'cast(null as ' ~ layout.types[column | lower] ~ ')' -%}
        {%- endif -%}
        {%- do fields.append(afterimage._literal(column) ~ ', ' ~ value) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}
