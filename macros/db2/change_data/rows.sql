{#- The CTEs from the rows of a CD or CCD table to `distinct_rows`: each row once, classified, with its place and its
    commit time, which may come from the UOW table or the `known_commits`. Of a row delivered twice the copy with
    the first time counts. `condition` says which rows to read, if not all. -#}
{%- macro _db2_rows(layout, rows, condition, complete, uow=none, time_zone='UTC', known_commits=none) -%}
{{ afterimage._db2_read_rows(layout, rows, condition, complete, time_zone) }},
{%- if uow is not none %}

commits as (

    select
        {{ afterimage._db2_place(uow.commitseq) }} as commit_place,
        max({{ afterimage._in_utc(uow.logmarker, time_zone) }}) as committed_at

    from {{ uow.relation }}
    where {{ afterimage._db2_is_place(uow.commitseq) }}
    group by 1

),
{%- endif %}

timed as (

    select
        identified.*,
        {{ 'coalesce(identified.landed_at, commits.committed_at, known_commits.committed_at)' if known_commits
            else 'coalesce(identified.landed_at, commits.committed_at)' if uow is not none
            else 'identified.landed_at' }} as changed_at,
        -- If an update is written as two rows with one place, the delete comes first.
        array_position(array('load', 'delete', 'insert', 'update', 'unknown'), kind) as row_rank

    from identified
    {%- if uow is not none %}
    left outer join commits
        on identified.commit_place = commits.commit_place
    {%- endif %}
    {%- if known_commits %}
    left outer join {{ known_commits | indent(4) }} as known_commits
        on identified.commit_place = known_commits.transaction_id
    {%- endif %}

),

{{ afterimage._distinct_rows(
    'timed', by='row_group, kind, image_hash',
    first='changed_at asc nulls last, operation_code asc, commit_digits asc, intent_digits asc', time='changed_at'
) }}
{%- endmacro -%}


{#- The CTEs from the rows of a CD or CCD table to `identified`: the kind of each row, its place in the log, and the
    identity it keeps when it is delivered again. -#}
{%- macro _db2_read_rows(layout, rows, condition, complete, time_zone) -%}
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
        {{ afterimage._before_image(layout.columns, layout.unique_key, layout.types, layout.image_of) }}
            as landed_before,
        {{ afterimage._each(image_columns, '{column} is not null') | join(' or ') or 'false' }} as has_before_values,
        {{ afterimage._hash_of_values(
            afterimage._hashable_columns(layout.columns + image_columns, layout.types)
        ) | indent(8) }} as image_hash

    from {{ rows }}
    {%- if condition %}
    where {{ condition | indent(8) }}
    {%- endif %}

),

identified as (

    select
        *,
        {{ afterimage._db2_is_place('commit_digits') }}
        and {{ afterimage._db2_is_place('intent_digits') }} as has_place,
        -- A full load has no place in the log: it leaves it empty or writes zeros.
        coalesce(commit_digits rlike '^0*$', true) or coalesce(intent_digits rlike '^0*$', true) as has_no_place,
        -- The text index's manual calls this column an INTEGER, though it holds letters. An INTEGER column can only
        -- hold the digits that the same manual gives for the log table.
        decode(
            operation_code, 'I', 'insert', '0', 'insert', 'U', 'update', '1', 'update', 'D', 'delete', '2', 'delete'
        ) as kind_by_code,
        if(has_place, {{ afterimage._db2_place('commit_digits') }}, null) as commit_place,
        if(has_place, {{ afterimage._db2_place('intent_digits') }}, null) as intent_place,
        {% if complete -%}
        if(kind_by_code = 'insert' and has_no_place, 'load', coalesce(kind_by_code, 'unknown'))
        {%- else -%}
        coalesce(kind_by_code, 'unknown')
        {%- endif %} as kind,
        if(kind_by_code = 'delete', deleted_image, landed_image) as image,
        case
            when kind = 'unknown'
                then concat('unknown operation: IBMSNAP_OPERATION ', coalesce(concat('"', operation_code, '"'), 'NULL'))
            when kind <> 'load' and not has_place
                then concat(
                    'no place in the log, which is 10 or 16 bytes: IBMSNAP_COMMITSEQ ', coalesce(commit_digits, 'NULL'),
                    ', IBMSNAP_INTENTSEQ ', coalesce(intent_digits, 'NULL')
                )
            when {{ afterimage._has_null_key(keys) }} then {{ afterimage._null_key_reason(keys) }}
        end as reject_reason,
        {{ afterimage._key_hash(afterimage._struct(keys, 'image.')) }} as key_hash,
        -- The identity of a row that is delivered again. Places count in their longer form.
        case
            when reject_reason is not null
                then concat('rejected-', md5({{ afterimage._exact_json('struct(
                    coalesce(commit_place, commit_digits) as c,
                    coalesce(intent_place, intent_digits) as i,
                    operation_code, ' ~ afterimage._row_to_name('image', layout.columns, layout.types) ~ ' as image
                )') }}))
            when kind = 'load' then concat('load-', key_hash)
            else concat(commit_place, intent_place)
        end as row_group

    from source_rows

)
{%- endmacro -%}


{#- The row that a delete removed. Capture writes it to both the columns and their before-images; either one is
    enough. -#}
{%- macro _db2_deleted_image(layout) -%}
    {%- set fields = [] -%}
    {%- for column in layout.columns -%}
        {%- set name = afterimage._quote(column) -%}
        {%- do fields.append(
            afterimage._literal(column) ~ ', ' ~ (
                'coalesce(' ~ name ~ ', ' ~ afterimage._before_value(column, layout.types, layout.image_of) ~ ')'
                if column in layout.image_of else name
            )
        ) -%}
    {%- endfor -%}
    {{ return('named_struct(' ~ fields | join(', ') ~ ')') }}
{%- endmacro -%}
