{#- The CTEs from an event log's rows to its changes, for netiq_event_log and xds_documents. `changes` has the change
    contract's columns, and beside them `kind`, `is_query_back`, `fields` (the events, in order), `table_key` and
    `perpetrator`. -#}
{%- macro _netiq_changes(layout, incremental) -%}
{%- set field_struct -%}
named_struct(
            'event_seq', event_seq,
            'column_name', column_name,
            'event_type', event_type,
            'old_value', old_value,
            'new_value', new_value
        )
{%- endset -%}
{%- set is_field_event = 'if(column_name is not null and event_type in (1, 2, 3, 7, 8), ' -%}
{{ afterimage._netiq_events(layout, incremental) }},

grouped as (

    select
        object_id,
        min_by(event_id, event_seq) as change_id,
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
        {%- if incremental %}
        min_by(known_after, event_seq) as known_after,
        min_by(known_columns, event_seq) as known_columns,
        min_by(is_known_change, event_seq) as is_known_change,
        max(reads_anew) as reads_anew,
        collect_list(struct(known_id, event_seq)) as known_places,
        {%- endif %}
        array_sort(collect_list({{ is_field_event }}{{ field_struct }}, null))) as fields,
        map_from_entries(collect_list({{ is_field_event }}struct(column_name, {{ field_struct }}), null))) as field_of,
        nullif(
            array_intersect(
                {{ afterimage._string_array(layout.names) }}, collect_list({{ is_field_event }}column_name, null))
            ),
            cast(array() as array<string>)
        ) as changed_columns,
        cast(sum(copies) as int) as source_rows

    from judged
    group by
        object_id,
        if(event_reason is null, concat(stretch, '-', occurrence), event_id)

),

{%- if layout.base is not none %}

-- A row of the table as it is now. A key has one; of several the greatest stands, so that no change is doubled.
base_rows as (

    select
        images.base_id,
        max(struct(images.image, images.misfits)) as found,
        count(*) as rows_of_key

    from (
        select
            typed_rows.*,
            {{ afterimage._netiq_key_text(layout.key_columns, 'image.') }} as base_id

        from (
            select
                named_struct(
                    {%- for column in layout.columns %}
                    {{ afterimage._literal(column.name) }},
                    {{ afterimage._netiq_base_value(layout, column) }}{{ ',' if not loop.last }}
                    {%- endfor %}
                ) as image,
                {{ afterimage._netiq_base_misfits(layout) | indent(16) }} as misfits

            from {{ layout.base }}
        ) as typed_rows
    ) as images
    group by images.base_id

),
{%- endif %}

read_back as (

    select
        grouped.*,
        {{ afterimage._netiq_typed_fields(layout, 'new_value') | indent(8) }} as new_values,
        {{ afterimage._netiq_typed_fields(layout, 'old_value') | indent(8) }} as old_values,
        {%- if layout.base is not none %}
        base_rows.found.image as present,
        try_element_at(
            filter(
                base_rows.found.misfits,
                m -> changed_columns is null or array_contains(changed_columns, m.column_name)
            ),
            1
        ).reason as misfit,
        base_rows.rows_of_key,
        {%- else %}
        cast(null as {{ afterimage._netiq_row_type(layout) }}) as present,
        cast(null as string) as misfit,
        0 as rows_of_key,
        {%- endif %}
        {%- if incremental %}
        -- What was read while the row was there stays: a later reading is further from the event.
        coalesce(
            is_query_back and is_known_change and known_after is not null and known_columns <=> changed_columns, false
        ) as stays
        {%- else %}
        false as stays
        {%- endif %}

    from grouped
    {%- if layout.base is not none %}
    left outer join base_rows
        on
            grouped.object_id = base_rows.base_id
            and grouped.is_query_back
    {%- endif %}

),

{{ 'judged_changes' if incremental else 'changes' }} as (

    select
        change_id,
        change_seq,
        operation,
        case
            when operation = 'delete' or exists(
                fields, f -> f.event_type = 2 or (f.event_type = 3 and f.old_value is not null)
            )
                then {{ afterimage._netiq_image(layout, 'old_values') | indent(16) }}
        end as `before`,
        {%- if incremental %}
        if(
            stays and not (reads_anew and deleted_by is null and present is not null),
            known_after,
            {{ afterimage._netiq_after(layout) | indent(12) }}
        ) as `after`,
        {%- else %}
        {{ afterimage._netiq_after(layout) | indent(8) }} as `after`,
        {%- endif %}
        changed_columns,
        if(
            changed_columns is not null,
            nullif(
                array_except(
                    {{ afterimage._string_array(layout.data_columns | map(attribute='name') | list) }}, changed_columns
                ),
                cast(array() as array<string>)
            ),
            null
        ) as absent_columns,
        changed_at,
        cast(null as string) as transaction_id,
        case
            when event_reason is not null then event_reason
            when not is_query_back
                then coalesce(
                    {%- for column in layout.columns if column.type != 'string' or column.name in layout.unique_key %}
                    {{ afterimage._netiq_value_reason(column, column.name in layout.unique_key) | indent(20) }},
                    {%- endfor %}
                    cast(null as string)
                )
            when stays then null
            when deleted_by is not null
                then concat('row gone: deleted by record ', {{ afterimage._netiq_record('deleted_by') }})
            when present is null then 'row gone: it is not in `base`'
            else misfit
        end as reject_reason,
        nullif(array_compact(array(
            if(
                is_query_back and event_reason is null and (stays or (deleted_by is null and present is not null)),
                'query-back: the values may be newer than the event',
                null
            ),
            if(key_warning is not null, concat('table_key has ', key_warning), null),
            if(is_query_back and rows_of_key > 1, concat('`base` has ', rows_of_key, ' rows of this key'), null),
            if(shares_record and change_seq <> '', 'another event of this key has the same record_id', null)
        )), cast(array() as array<string>)) as warnings,
        source_rows,
        nullif(trim(perpetrator), '') as changed_by,
        kind,
        is_query_back,
        fields,
        table_key,
        perpetrator
        {%- if incremental %},
        known_places
        {%- endif %}

    from read_back

)
{%- if incremental %},

-- An event that arrives after others of its change, but stands before them, gives the change another identity. What
-- the table has under the old one then stands for nothing.
changes as (

    select
        coalesce(place.known_id, change_id) as change_id,
        coalesce(place.event_seq, change_seq) as change_seq,
        operation,
        `before`,
        `after`,
        changed_columns,
        absent_columns,
        changed_at,
        transaction_id,
        if(place is null, reject_reason, concat('moved: it is part of ', change_id)) as reject_reason,
        warnings,
        if(place is null, source_rows, 0) as source_rows,
        changed_by

    from judged_changes
    lateral view explode(
        concat(array(if(true, null, known_places[0])), filter(known_places, p -> p.known_id <> change_id))
    ) as place

)
{%- endif %}
{%- endmacro -%}
