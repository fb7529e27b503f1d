{#- The CTEs from an event log's rows to its changes, for netiq_event_log and xds_documents: `described`, the rows
    that `_finish` takes, with the extra columns `event_kind`, `is_query_back`, `fields` (the events, in order),
    `table_key` and `perpetrator`. `new_shape` is what _check_drift returns. -#}
{%- macro _netiq_changes(layout, incremental, new_shape=none) -%}
{%- set field_struct -%}
named_struct(
            'event_seq', event_seq,
            'column_name', column_name,
            'event_type', event_type,
            'old_value', old_value,
            'new_value', new_value
        )
{%- endset -%}
{%- set logged = layout.precedence == 'logged' -%}
{%- set erasures = afterimage._erasures_of(
    model.name, layout.unique_key, afterimage._column_types(layout.columns)
) if incremental else none -%}
{%- set begins = "known_change in (event_id, concat('erased-', md5(event_id)))" if erasures
    else 'known_change = event_id' -%}
{%- set is_field_event = 'if(column_name is not null and event_type in (1, 2, 3, 7, 8), ' -%}
{#- Each event once, with the reason if it is set aside, and with the values that show which events are one change.
    Steps are merged where possible: Spark resolves a query from the inside out, a few rounds per step, and gives up
    after 100 rounds. -#}
{{ afterimage._netiq_log_rows(layout) }},

{{ afterimage._netiq_named_events(layout) }},
{%- if incremental %}

{{ afterimage._netiq_remembered_events(layout, erasures is not none, new_shape) }},
{%- endif %}
{%- if layout.base is not none %}

{{ afterimage._netiq_base_rows(layout) }},
{%- endif %}

{{ afterimage._netiq_events_classified_alone(layout, incremental) }},

{{ afterimage._netiq_events_classified_together(layout, incremental) }},

grouped as (

    select
        object_id,
        {%- if incremental %}
        coalesce(min(if(is_kept, known_change, null)), min_by(event_id, event_seq)) as change_id,
        {%- else %}
        min_by(event_id, event_seq) as change_id,
        {%- endif %}
        min(event_seq) as change_seq,
        min(kind) as kind,
        case
            when min(event_type) in (1, 5, 7) then 'insert'
            when min(event_type) in (2, 3, 6, 8) then 'update'
            when min(event_type) = 4 then 'delete'
        end as operation,
        coalesce(min(event_type) between 5 and 8, false) as is_query_back,
        min(event_time) as changed_at,
        min_by(perpetrator, event_seq) as perpetrator,
        min_by(table_key, event_seq) as table_key,
        min_by(key_values, event_seq) as key_values,
        min(event_reason) as event_reason,
        min(deleted_by) as deleted_by,
        min(parsed.warning) as key_warning,
        max(events_of_record > 1) as shares_record,
        min_by(present_row, event_seq) as present_row,
        max(rows_of_key) as rows_of_key,
        {%- if logged %}
        min_by(logged_next, event_seq) as logged_next,
        {%- endif %}
        {%- if incremental %}
        bool_or(is_kept) as is_kept,
        -- The changes that began with one of these events in earlier runs.
        collect_list(if({{ begins }}, struct(event_id, event_seq), null)) as known_places,
        {%- endif %}
        array_sort(collect_list(event_id)) as event_ids,
        array_sort(collect_list({{ is_field_event }}{{ field_struct }}, null))) as fields,
        map_from_entries(collect_list({{ is_field_event }}struct(column_name, {{ field_struct }}), null))) as field_of,
        nullif(
            array_intersect(
                {{ afterimage._string_array(layout.names) }}, collect_list({{ is_field_event }}column_name, null))
            ),
            cast(array() as array<string>)
        ) as changed_columns,
        cast(sum(copies) as int) as source_rows

    from classified
    group by
        object_id,
        case
            {%- if incremental %}
            when is_kept then concat('kept ', known_change)
            {%- endif %}
            {%- if not logged %}
            -- Else it would reject the fields that were queried back with it, after they overruled logged events.
            when event_type in (7, 8) and exists(present_row.misfits, m -> m.column_name = column_name) then event_id
            {%- endif %}
            when event_reason is null then concat(stretch, '-', occurrence)
            else event_id
        end

),

read_back as (

    select
        *,
        {{ afterimage._netiq_typed_fields(layout, 'new_value') | indent(8) }} as new_values,
        {{ afterimage._netiq_typed_fields(layout, 'old_value') | indent(8) }} as old_values,
        present_row.image as present,
        try_element_at(
            filter(
                present_row.misfits,
                m -> (changed_columns is null or array_contains(changed_columns, m.column_name))
                {%- if logged %}
                and not map_contains_key(logged_next, m.column_name)
                {%- endif %}
            ),
            1
        ).reason as misfit

    from grouped

),

{{ 'classified_changes' if incremental else 'described' }} as (

    select
        change_id as identity,
        change_seq as place,
        coalesce(operation, 'unknown') as kind,
        {{ afterimage._netiq_row_image(layout) | indent(8) }} as image,
        if(
            exists(fields, f -> f.event_type = 2 or (f.event_type = 3 and f.old_value is not null)),
            {{ afterimage._netiq_image(layout, 'old_values') | indent(12) }},
            null
        ) as before_image,
        changed_columns,
        {{ afterimage._netiq_absent_columns(layout) | indent(8) }} as absent_columns,
        changed_at,
        case
            when event_reason is not null then event_reason
            when not is_query_back
                then coalesce(
                    {%- for column in layout.columns if column.type != 'string' or column.name in layout.unique_key %}
                    {{ afterimage._netiq_value_reason(column, column.name in layout.unique_key) | indent(20) }},
                    {%- endfor %}
                    cast(null as string)
                )
            when deleted_by is not null
                then concat('row gone: deleted by record ', {{ afterimage._netiq_record('deleted_by') }})
            when present is null then 'row gone: it is not in `base`'
            else misfit
        end as reject_reason,
        nullif(array_compact(array(
            if(
                is_query_back and event_reason is null and deleted_by is null and present is not null,
                'query-back: the values may be newer than the event',
                null
            ),
            if(key_warning is not null, concat('table_key has ', key_warning), null),
            if(is_query_back and rows_of_key > 1, concat('`base` has ', rows_of_key, ' rows of this key'), null),
            if(shares_record and change_seq <> '', 'another event of this key has the same record_id', null)
        )), cast(array() as array<string>)) as warnings,
        source_rows,
        nullif(trim(perpetrator), '') as changed_by,
        event_ids,
        kind as event_kind,
        is_query_back,
        fields,
        table_key,
        perpetrator
        {%- if incremental %},
        is_kept,
        known_places
        {%- endif %}

    from read_back

)
{%- if incremental %},

-- A late event may sort before the other events of its change. It then gives the change a new identity, and the row
-- under the old one is no longer a change.
placed_changes as (

    select
        classified_changes.*,
        former

    from classified_changes
    lateral view explode(concat(
        array(if(true, null, known_places[0])),
        filter(known_places, p -> p.event_id <> identity and not is_kept)
    )) as former

),

described as (

    select
        {%- set moved = {
            'identity': 'coalesce(former.event_id, identity)',
            'place': 'coalesce(former.event_seq, place)',
            'reject_reason': "if(former is null, fresh.reject_reason, concat('moved: it is part of ', identity))",
            'source_rows': 'if(former is null, fresh.source_rows, 0)',
            'event_ids': 'if(former is null, fresh.event_ids, cast(array() as array<string>))',
        } %}
        {%- set known = {
            'identity': 'kept.change_id',
            'place': 'kept.change_seq',
            'kind': "coalesce(kept.operation, 'unknown')",
            'image': "if(kept.operation = 'delete', kept.`before`, kept.`after`)",
            'before_image': 'kept.`before`',
            'changed_at': afterimage._netiq_kept_time(layout),
            'source_rows': 'greatest(kept.source_rows, fresh.source_rows)',
        } %}
        {%- if new_shape and new_shape.added %}
        {%- do known.update({
            'absent_columns': "if(kept.operation <=> 'delete', kept.absent_columns, nullif(array_intersect("
                ~ afterimage._string_array(layout.names) ~ ', array_union(coalesce(kept.absent_columns, cast(array() as'
                ~ ' array<string>)), ' ~ afterimage._netiq_not_read(new_shape) ~ ')), cast(array() as array<string>)))',
        }) %}
        {%- endif %}
        {%- for column in [
            'identity', 'place', 'kind', 'image', 'before_image', 'changed_columns', 'absent_columns', 'changed_at',
            'reject_reason', 'warnings', 'source_rows', 'changed_by', 'event_ids'
        ] %}
        if(
            fresh.is_kept,
            {{ known.get(column, 'kept.' ~ column) }},
            {{ moved.get(column, 'fresh.' ~ column) }}
        ) as {{ column }}{{ ',' if not loop.last }}
        {%- endfor %}

    from placed_changes as fresh
    left outer join {{ this }} as kept
        on
            fresh.identity = kept.change_id
            and fresh.is_kept

)
{%- endif %}
{%- endmacro -%}


{#- The logged values of the fields, each cast to its type. -#}
{%- macro _netiq_typed_fields(layout, value) -%}
named_struct(
    {%- for column in layout.columns %}
    {%- set text = 'try_element_at(field_of, ' ~ afterimage._literal(column.name) ~ ').' ~ value %}
    {{ afterimage._literal(column.name) }}, {{ afterimage._netiq_cast(text, column.type) }}{{ ',' if not loop.last }}
    {%- endfor %}
)
{%- endmacro -%}


{#- A row that holds the key and the values of the logged fields. -#}
{%- macro _netiq_image(layout, values) -%}
    {{ return(afterimage._struct(layout.names, values ~ '.', layout.unique_key, 'key_values.{column}')) }}
{%- endmacro -%}
