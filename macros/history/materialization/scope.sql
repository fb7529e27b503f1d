{#- Which keys a run rebuilds, and from where:
    - `touched`: a scratch table of the keys, the place from which each is rebuilt, and what the table knows of them,
    - `key_count`: how many keys,
    - `all_is_new`: true if only open versions can change,
    - `slice`: the condition for the changes that the rebuild reads,
    - `from_first_change`: whether it reads all of them. -#}
{%- macro _rebuild_scope(
    target_relation, stream, columns, options, taken_in, remembered, condition, pending, key_changes
) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set plan = afterimage._history_plan(options, names) -%}
    {%- set meta = plan.meta -%}
    {%- set keys = afterimage._key_names(options.unique_key) -%}
    {%- set slice = afterimage._slice(pending, options) -%}

    {%- set from_first_change = afterimage._rebuilds_from_first_change(
        stream, options, plan, taken_in, remembered, pending, key_changes, slice
    ) -%}
    {%- set start_seq = "''" if from_first_change else 'min(' ~ afterimage._shared_place('change_seq') ~ ')' -%}
    {%- set slice = 'true' if from_first_change else slice -%}

    {#- A late truncation may separate the changes of a transaction from a truncation of its own, and so bring back
        rows of which the history knows nothing. So may one that is taken back: rows that began at its place had no version.
        In both cases keys are rebuilt from their first change, without which those of other keys would have no rows. -#}
    {%- set touches_all = from_first_change and pending.truncates > 0
        and (options.grain == 'transaction' or pending.min_rejected_seq is not none) -%}
    {%- set affected -%}
        with pending as (

            select * from {{ stream }} as changes
            where {{ condition }}

        )

        select
            {{ keys | join(', ') }},
            {{ start_seq }} as start_seq

        from (
            {{ afterimage._touched_keys(
                stream if touches_all else 'pending', options.unique_key,
                carrying_stream=stream if from_first_change and remembered.carries
            ) | indent(12) }}
            {%- if pending.truncates > 0 %}
            union all
            select
                {{ afterimage._each(options.unique_key, 'history.{column} as {key}') | join(', ') }},
                pending.change_seq

            from {{ target_relation }} as history
            inner join pending
                on
                    pending.operation = 'truncate'
                    -- Versions that the truncation itself ended are rebuilt too: it may be redelivered with another
                    -- timestamp, or at an earlier place, where it no longer ends those that began behind it.
                    and (
                        history.{{ meta.valid_to_seq }} is null
                        or history.{{ meta.valid_to_seq }} >= pending.change_seq
                    )
                    and (
                        history.{{ meta.valid_from_seq }} <= pending.change_seq
                        or history.{{ meta.closed_by }} = 'truncate'
                    )
            {%- endif %}
            {%- if pending.truncates > 0 and from_first_change %}
            -- A row that began at its place has no version there, but the time of what the key was given later.
            union all
            {{ afterimage._touched_keys(
                stream, options.unique_key,
                "operation <> 'truncate' and change_seq in (select change_seq from pending where operation = 'truncate')"
            ) | indent(12) }}
            {%- endif %}
        ) as touching
        group by {{ keys | join(', ') }}
    {%- endset -%}
    {#- Broadcast the keys if they are few, so that the versions need no shuffle. Spark cannot estimate their number.
        -#}
    {%- set can_broadcast =
        pending.changes <= 500000 and pending.truncates == 0 and not (from_first_change and remembered.carries)
    -%}
    {%- set of_history = [
        'version', 'valid_from_seq', 'valid_to_seq', 'valid_from', 'valid_to', 'history_id', 'operation', 'closed_by',
        'is_current', 'is_deleted', 'transaction_id'
    ] -%}
    {#- Adds the ends of earlier rows to the versions that the run may change: they give the number of a key's next
        version. One scan of the history gives both. Each key also has one row without a version (`is_key`). -#}
    {%- set touched -%}
        select {{ '/*+ broadcast(affected) */' if can_broadcast }}
            {{ afterimage._each(options.unique_key, 'affected.{key}') | join(', ') }},
            affected.start_seq,
            false as is_key,
            history.{{ meta.valid_to_seq }} is null or history.{{ meta.valid_to_seq }} >= affected.start_seq as is_touched,
            {%- for name in of_history %}
            history.{{ meta[name] }} as {{ name }},
            {%- endfor %}
            {{ afterimage._struct(names, 'history.') }} as image

        from {{ target_relation }} as history
        inner join ({{ affected }}) as affected
            on {{ afterimage._each(options.unique_key, 'history.{column} <=> affected.{key}') | join(' and ') }}
        {%- if not from_first_change %}
        where
            (
                history.{{ meta.valid_to_seq }} is null
                or history.{{ meta.valid_to_seq }} >= affected.start_seq
                or history.{{ meta.closed_by }} <> 'update'
            )
            -- The same condition, less precise, in a form that lets files be skipped.
            and (
                history.{{ meta.valid_to_seq }} is null
                or history.{{ meta.valid_to_seq }} >= {{ afterimage._literal(pending.min_seq) }}
                or history.{{ meta.closed_by }} <> 'update'
            )
        {%- endif %}
        union all
        select
            {{ keys | join(', ') }},
            start_seq,
            true as is_key,
            false as is_touched,
            {%- for name in of_history + ['image'] %}
            null as {{ name }}{{ ',' if not loop.last }}
            {%- endfor %}

        from ({{ affected }}) as affected
    {%- endset -%}
    {%- set touched = afterimage._scratch_table(target_relation, 'touched', touched) -%}
    {%- set counts = run_query(
        'select count_if(is_key), count_if(is_touched and (valid_to_seq is not null or valid_from_seq >= start_seq)) from '
        ~ touched
    ).rows[0] -%}

    {{ return({
        'touched': touched,
        'key_count': counts[0],
        'all_is_new': counts[1] == 0,
        'slice': slice,
        'from_first_change': from_first_change,
    }) }}
{%- endmacro -%}


{#- Whether a run must rebuild its keys from their first change, because the history does not hold all that their
    later versions need. -#}
{%- macro _rebuilds_from_first_change(
    stream, options, plan, taken_in, remembered, pending, key_changes, slice
) -%}
    {%- set reasons = {
        'the caller asks for it': afterimage._setting('afterimage_rebuild') is not none,
        'a version is what a whole transaction did': options.grain == 'transaction',
        'all versions show the last values of some columns': plan.overwritten | length > 0,
        'a change has left its place': pending.movable > 0,
        'a truncation may have been taken back': pending.truncates > 0 and afterimage._takes_back(pending, taken_in),
        'rows took keys or columns along': key_changes.needs_all,
    } -%}
    {%- if reasons.values() | select | list -%}
        {{ return(true) }}
    {%- endif -%}
    {%- set conditions = [] -%}
    {%- if plan.untracked | length > 0 and remembered.sparse_columns | length > 0 -%}
        {#- A later change may not have captured an untracked column. It then needs the earlier value, which no
            version has. -#}
        {%- do conditions.append(slice ~ ' and size(absent_columns) > 0') -%}
    {%- endif -%}
    {%- if plan.untracked | length > 0 and options.deletes == 'version' -%}
        {#- An end shows the same values. -#}
        {%- do conditions.append(
            slice ~ " and (operation in ('delete', 'truncate') or " ~ afterimage._changes_key(options.unique_key) ~ ')'
        ) -%}
    {%- endif -%}
    {%- if remembered.truncates -%}
        {#- A row that begins and is truncated at one change_seq has no version, so the history does not know the time
            of that truncation. -#}
        {%- do conditions.append(
            "operation <> 'truncate' and change_seq in (select change_seq from " ~ stream
            ~ " as truncations where operation = 'truncate' and " ~ slice ~ ')'
        ) -%}
    {%- endif -%}
    {%- if not conditions -%}
        {{ return(false) }}
    {%- endif -%}
    {{ return(afterimage._value(
        'select count(*) from ' ~ stream ~ ' as changes where (' ~ conditions | join(') or (') ~ ')'
    ) > 0) }}
{%- endmacro -%}


{#- The keys that some changes touch, with their change_seq, in a row for each image. If rows of `carrying_stream` took
    values with them to other keys, those keys count as touched. -#}
{%- macro _touched_keys(changes, unique_key, condition='true', carrying_stream=none) -%}
{%- for image in ['`before`', '`after`'] %}
{{ 'union all' if not loop.first }}
select
    {{ afterimage._each(unique_key, image ~ '.{column} as {key}') | join(', ') }},
    change_seq

from {{ changes }} as changes
where {{ image }} is not null and ({{ condition }})
{%- endfor %}
{%- if carrying_stream %}
union all
select
    {{ afterimage._each(unique_key, '`after`.{column} as {key}') | join(', ') }},
    change_seq

from {{ carrying_stream }} as changes
where reject_reason is null and {{ afterimage._is_sparse_move(unique_key) }}
{%- endif %}
{%- endmacro -%}


{#- The keys of a query, and those that rows came to from there (`from_image` is `before`), or from which rows came
    there (`after`). -#}
{%- macro _with_moves(stream, unique_key, keys, from_image, to_image) -%}
{{ keys }}
union
select {{ afterimage._quoted(unique_key, to_image ~ '.') | join(', ') }}
from {{ stream }} as changes
where
    {{ afterimage._changes_key(unique_key) }}
    and {{ afterimage._has_key_of(from_image, unique_key, keys) | indent(4) }}
{%- endmacro -%}


{#- The first time from the first new place on, up to the last new change that comes behind others of its place. All of
    these are rebuilt with it (`9.1` is between `9` and `9.234`), and are valid from the latest time before them, which only
    changes after this time can have. -#}
{%- macro _min_time_before_ties(stream, pending, options) -%}
    {%- set relation = stream ~ ' as changes where change_seq >= ' ~ afterimage._literal(pending.min_seq)
        ~ ' and change_seq < ' ~ afterimage._literal(pending.last_tied) -%}
    {%- set first = 'unix_micros(min(coalesce(changed_at, ' ~ options.load_valid_from ~ ')))' -%}
    {{ return(afterimage._summary(relation, {'min_time': 'least(' ~ pending.min_time ~ ', ' ~ first ~ ')'}).min_time) }}
{%- endmacro -%}


{#- The changes from the first new place on, and those that may change the times there, in a form that lets files be
    skipped. Changes without a timestamp do not matter if they are valid from long ago. -#}
{%- macro _slice(pending, options) -%}
    {{ return(
        "(change_seq >= " ~ afterimage._literal(pending.min_seq)
        ~ " or changed_at > timestamp_micros(" ~ pending.min_time ~ ")"
        ~ " or (changed_at is null and " ~ options.load_valid_from ~ " > timestamp_micros(" ~ pending.min_time ~ ")))"
    ) }}
{%- endmacro -%}
