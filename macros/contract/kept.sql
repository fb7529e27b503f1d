{#- What a change of two rows keeps once one of them has left the raw table: the other may be read again, alone or
    with more copies, and would be another change, or an orphan. Rows that were taken in stay. `changes` say whether their
    group has a row from before and one from after (`has_before_image`, `has_after_image`). What is still there may have
    new values, or those of a new column. A part of what _known_rules takes. -#}
{%- macro _keep_other_half(unique_key) -%}
    {%- set is_known = "known.reject_reason is null and known.operation = 'update'" -%}
    {%- set has_lost_before = afterimage._has_lost_before(unique_key) -%}
    {#- What the before-image gave reason for is still true. -#}
    {%- set warnings -%}
nullif(
            array_union(
                filter(
                    coalesce(changes.warnings, cast(array() as array<string>)),
                    warning -> not startswith(warning, 'the key changed, but without a before-image')
                ),
                filter(coalesce(known.warnings, cast(array() as array<string>)), warning -> warning rlike
                    '^(change_mask does not flag|the mask leaves out|the key changed and not all|a delete and an insert of)')
            ),
            cast(array() as array<string>)
        )
    {%- endset -%}
    {%- set kept = {} -%}
    {%- for column, value in {
        'before': 'known.`before`', 'warnings': warnings, 'source_rows': 'greatest(known.source_rows, changes.source_rows)'
    }.items() if afterimage._is_incremental() -%}
        {%- do kept.update({column: 'if(' ~ has_lost_before ~ ', ' ~ value ~ ', changes.`' ~ column ~ '`)'}) -%}
    {%- endfor -%}
    {%- set unchanged_if -%}
{{ is_known }}
    and (
        not changes.has_after_image
        or (known.`before` is not null and not changes.has_before_image and not changes.operation <=> 'update')
    )
    {%- endset -%}
    {{ return({
        'unchanged_if': unchanged_if, 'kept': kept, 'carried': ['has_before_image', 'has_after_image']
    }) }}
{%- endmacro -%}


{#- The condition that an update has lost the row before it. One that is still there may be another update's. -#}
{%- macro _has_lost_before(unique_key) -%}
known.reject_reason is null
        and known.operation = 'update'
        and changes.reject_reason is null
        and changes.operation = 'update'
        and changes.`before` is null
        and known.`before` is not null
        and not changes.has_before_image
        and {{ afterimage._same_columns('changes.`after`', 'known.`after`', unique_key) }}
{%- endmacro -%}


{#- The condition that a load is older than the one of its key that the table has, whose file may be gone, and no copy
    of it. `last_time` is that of all its copies. -#}
{%- macro _is_older_load(intake, columns, types) -%}
known.reject_reason is null
    and known.operation = 'load'
    and changes.operation = 'load'
    and known.changed_at > changes.last_time
    and not ({{ afterimage._is_copied_load(intake, columns, types) }})
{%- endmacro -%}


{#- What a load keeps: the first time of its copies, also of those that have left the raw table. A part of what
    _known_rules takes. -#}
{%- macro _keep_first_time(intake, columns, types) -%}
    {%- if not afterimage._is_incremental() or intake.has_new_rules -%}
        {{ return({}) }}
    {%- endif -%}
    {{ return({
        'changed_at': 'if(' ~ afterimage._is_copied_load(intake, columns, types)
            ~ ', least(known.changed_at, changes.changed_at), changes.changed_at)'
    }) }}
{%- endmacro -%}


{#- The condition that a load has the values of the one that the table has, in the columns that are not new. -#}
{%- macro _is_copied_load(intake, columns, types) -%}
{%- set columns = columns | reject('in', intake.added) | list -%}
{%- set type, images = afterimage._row_type(columns, types), [] -%}
{%- for rows in ['known', 'changes'] -%}
    {%- set image = afterimage._struct(columns, rows ~ '.`after`.') if intake.added else rows ~ '.`after`' -%}
    {#- The table has the widest types of all raw tables, and Spark compares no rows of two types. -#}
    {%- set image = 'try_cast(' ~ image ~ ' as ' ~ type ~ ')' if intake.is_united else image -%}
    {%- do images.append(afterimage._comparable(image, type)) -%}
{%- endfor -%}
known.reject_reason is null
    and changes.reject_reason is null
    and known.operation = 'load'
    and changes.operation = 'load'
    and {{ images | join(' <=> ') }}
{%- endmacro -%}
