{#- Builds the versions, compares them with the table, and writes the difference in one MERGE. Returns the scratch
    table of the difference. -#}
{%- macro _apply_rebuild(target_relation, stream, columns, options, rebuilt, facts, pending, snapshot) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set meta = afterimage._meta_columns(options.macro_name, options.meta_column_names, names) -%}
    {%- set written = afterimage._quoted(names) + meta.values() | list -%}

    {%- set versions = afterimage._versions(stream, columns, options, rebuilt, facts) -%}
    {%- set difference -%}
        {%- if rebuilt.all_is_new %}
        -- Each key has at most its open version here, which ends now or stays as it is, so there is nothing to compare.
        select
            if(rebuilt_versions.afterimage_is_known, 'closed', 'opened') as afterimage_action,
            rebuilt_versions.{{ meta.history_id }} as afterimage_id,
            cast(null as string) as afterimage_left_seq,
            rebuilt_versions.*

        from ({{ versions }}) as rebuilt_versions
        where not rebuilt_versions.afterimage_is_known or not rebuilt_versions.{{ meta.is_current }}
        {%- else %}
        select
            case
                when rebuilt_versions.{{ meta.history_id }} is null then 'removed'
                when touched.history_id is null then 'opened'
                when touched.is_current and not rebuilt_versions.{{ meta.is_current }} then 'closed'
                else 'rebuilt'
            end as afterimage_action,
            coalesce(rebuilt_versions.{{ meta.history_id }}, touched.history_id) as afterimage_id,
            -- The place of a version that is no more, or where a row ended that now lives on.
            case
                when rebuilt_versions.{{ meta.history_id }} is null then touched.valid_from_seq
                when touched.closed_by <> 'update'
                    and coalesce(rebuilt_versions.{{ meta.valid_to_seq }} > touched.valid_to_seq, true)
                    then touched.valid_to_seq
            end as afterimage_left_seq,
            rebuilt_versions.*

        from ({{ versions }}) as rebuilt_versions
        full outer join (select * from {{ rebuilt.touched }} where is_touched) as touched
            on rebuilt_versions.{{ meta.history_id }} = touched.history_id
        where
            rebuilt_versions.{{ meta.history_id }} is null
            or touched.history_id is null
            or not (
                {%- for column in columns %}
                {%- set name = afterimage._quote(column.name) %}
                {{ afterimage._comparable('rebuilt_versions.' ~ name, column.type) }}
                <=> {{ afterimage._comparable('touched.image.' ~ name, column.type) }}
                and
                {%- endfor %}
                {%- for name in meta if name != 'history_id' %}
                rebuilt_versions.{{ meta[name] }} <=> touched.{{ name }}{{ ' and' if not loop.last }}
                {%- endfor %}
            )
        {%- endif %}
    {%- endset -%}
    {%- set difference = afterimage._scratch_table(target_relation, 'difference', difference) -%}
    {%- set counts = afterimage._summary(difference, {
        'opened': "count_if(afterimage_action = 'opened')",
        'closed': "count_if(afterimage_action = 'closed')",
        'rebuilt': "count_if(afterimage_action = 'rebuilt')",
        'removed': "count_if(afterimage_action = 'removed')",
        'left': 'count(afterimage_left_seq)',
    }) -%}
    {%- if counts.left > 0 -%}
        {%- set removed -%}
            select touched.*, difference.afterimage_left_seq as known_seq
            from {{ rebuilt.touched }} as touched
            inner join {{ difference }} as difference
                on touched.history_id = difference.afterimage_id
            where touched.is_touched and difference.afterimage_left_seq is not null
        {%- endset -%}
        {%- do afterimage._refuse_to_lose(
            target_relation, stream, options, removed, [difference, rebuilt.touched, facts.carried]
        ) -%}
    {%- endif -%}
    {%- do log(
        model.name ~ ': ' ~ pending.changes ~ ' changes in, ' ~ rebuilt.key_count ~ ' keys touched; versions: '
        ~ counts.opened ~ ' opened, ' ~ counts.closed ~ ' closed, ' ~ counts.rebuilt ~ ' changed, '
        ~ counts.removed ~ ' removed',
        info=true
    ) -%}

    {%- if counts.opened + counts.closed + counts.rebuilt + counts.removed == 0 -%}
        {%- call noop_statement('main', 'OK') -%} -- no version has changed {%- endcall -%}
        {%- if snapshot is not none -%}
            {%- do run_query('select ' ~ afterimage._is_at_version(target_relation, snapshot)) -%}
        {%- endif -%}
    {%- else -%}
        {%- set matches -%}
known.{{ meta.history_id }} = fresh.afterimage_id
            {%- if not rebuilt.from_first_change %}
and (
    known.{{ meta.valid_to_seq }} is null
    or known.{{ meta.valid_to_seq }} >= {{ afterimage._literal(pending.min_seq) }}
)
            {%- endif %}
        {%- endset -%}
        {%- set rows = 'select * from ' ~ difference ~ ' where ' ~ afterimage._is_at_version(target_relation, snapshot) -%}
        {%- call statement('main') -%}
{{ afterimage._merge_rows(
    target_relation, rows, matches, written, removes="fresh.afterimage_action = 'removed'"
) }}
        {%- endcall -%}
    {%- endif -%}
    {{ return(difference) }}
{%- endmacro -%}


{#- Raises an error if rows would go because the stream begins later than it did: their place is before the first
    that their key has there now, and no change is at it. So it is if a staging table is built again, such as under
    another name, from a raw table that was pruned; loads, which are before all places, may have stayed. What was rejected
    or erased is still there, at its place. `removed` is a query for the rows to remove, with `known_seq`: in a history
    also rows that ended there, and would live on. `scratch` are tables that the run drops later. -#}
{%- macro _refuse_to_lose(target_relation, stream, options, removed, scratch) -%}
    {#- The stream is a part of itself then. What a sample takes away, the next run brings back. -#}
    {%- if invocation_args_dict.sample -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set keys = afterimage._key_names(options.unique_key) | join(', ') -%}
    {%- set place = afterimage._shared_place('change_seq') -%}
    {%- set is_same_key = afterimage._each(options.unique_key, 'removed.{key} <=> changes.`after`.{column}') -%}
    {%- set missing -%}
        ({{ removed }}) as removed
        {#- Loads, and what was rejected without a place, share the empty one. #}
        left anti join {{ stream }} as changes
            on
                removed.known_seq = changes.change_seq
                and (removed.known_seq <> '' or ({{ is_same_key | join(' and ') }}))
    {%- endset -%}
    {#- Most changes that a run takes back are still there: then the keys of the stream need not be read. -#}
    {%- if not afterimage._value('select count(*) from ' ~ missing) | int -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set query -%}
        select count(*)
        from {{ missing }}
        left outer join (
            select
                {{ keys }},
                min(nullif({{ place }}, '')) as first_place,
                -- A load may have become a delete, or have moved behind changes that landed late.
                count_if(change_seq = '' or {{ afterimage._has_movable_place('change_seq') }}) > 0 as may_have_load

            from ({{ afterimage._touched_keys(stream, options.unique_key, 'reject_reason is null') }}) as touching
            group by {{ keys }}
        ) as present
            on {{ afterimage._each(options.unique_key, 'removed.{key} <=> present.{key}') | join(' and ') }}
        where
            if(
                removed.known_seq = '',
                not coalesce(present.may_have_load, false),
                not coalesce({{ afterimage._shared_place('removed.known_seq') }} >= present.first_place, false)
            )
            and not {{ afterimage._has_movable_place('removed.known_seq') }}
    {%- endset -%}
    {%- set lost = afterimage._value(query) | int -%}
    {%- if lost > 0 -%}
        {%- do afterimage._drop_scratch_tables(scratch) -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ': ' ~ lost ~ ' rows of ' ~ target_relation ~ ' would be lost, or would not end, because'
            ~ ' the stream begins after the changes that they came from. If its staging table was built again from a raw'
            ~ ' table that had been pruned, roll it back, or restore the earlier one in its place. To let the rows go, as'
            ~ ' where the stream leaves out what staging has rejected since, copy the table first, and run'
            ~ ' `dbt run --full-refresh --select ' ~ model.name ~ '`.'
        ) -%}
    {%- endif -%}
{%- endmacro -%}
