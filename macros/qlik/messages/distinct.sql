{#- The CTEs from `classified` to `described`, the rows that `_finish` takes: each change once, however many messages
    hold it. -#}
{%- macro _qlik_distinct_messages(layout, landing) -%}
{#- The partition of the windows: the place and the key, with good messages separate from others. A message that is
    not a load and has no place is alone. -#}
{%- set place = 'shared_place, reject_reason is null, own_key' -%}
{%- set has_reloads = layout.has_reloads -%}
{%- set is_incremental = afterimage._is_incremental() -%}
{%- set no_time = "place <> '' and source_time is null and final_reason is null"
    ~ (' and not (is_reload and arrival.landed_at is not null)' if has_reloads else '') -%}
{%- set arrival = 'order_of_arrival' if has_reloads else 'arrival' -%}
{%- if has_reloads -%}
-- A difference that a reload finds is a change at the reload's time. The offsets show which of its messages came last.
placed as (

    select
        classified.*,
        coalesce(reloads.place, classified.own_place) as place,
        reloads.place is not null as is_reload,
        if(
            reloads.place is null,
            classified.arrival,
            struct(
                cast(null as timestamp) as landed_at,
                classified.arrival.landed_partition as landed_partition,
                classified.arrival.landed_offset as landed_offset
            )
        ) as order_of_arrival

    from classified
    left outer join reloads
        on
            classified.kind = 'load'
            and classified.message_id = reloads.message_id
            and classified.message_position <=> reloads.message_position

),

{% if is_incremental %}
-- The places of loads that are no longer landed. They keep their numbers, although others may have the same bytes.
gone as (

    select
        left(known.change_id, 32) as message_id,
        sort_array(collect_set(coalesce(try_cast(substring(known.change_id, 34) as int), 1))) as numbers_gone

    from {{ this }} as known
    left anti join placed
        on
            left(known.change_id, 32) = placed.message_id
            and (
                known.change_seq = placed.place
                or (
                    known.message_position.`offset` = placed.message_position.`offset`
                    and known.message_position.`partition` = placed.message_position.`partition`
                    and {{ afterimage._qlik_known_topic(landing, 'known') }} <=> placed.message_position.topic
                )
            )
    where known.operation = 'load' or {{ afterimage._has_movable_place('known.change_seq') }}
    group by 1

),
{% endif %}
{% endif -%}
-- All windows below are within a place and a key, so the rows are shuffled once.
gathered as (

    select
        *,
        coalesce(nullif(place, ''), if(kind = 'load', 'load', message_id)) as shared_place,
        {{ afterimage._struct(layout.unique_key, 'image.') }} as own_key

    from {{ 'placed' if has_reloads else 'classified' }}
    distribute by shared_place, own_key

),

-- A message delivered twice counts once: a reload or a restart writes the same message again.
copies as (

    select
        *,
        row_number() over (partition by {{ place }}, message_id order by {{ arrival }}, arrival) as copy_number,
        count(*) over (partition by {{ place }}, message_id) as copies,
        max({{ arrival }}) over (partition by {{ place }}, message_id) as last_arrival,
        min(message_position) over (partition by {{ place }}, message_id) as first_position
        {%- if has_reloads %},
        -- A later reload may find a row as an earlier one did; that is a change of its own.
        dense_rank() over (partition by message_id order by place) as rank_of_place
        {%- endif %}

    from gathered
    {%- if has_reloads and is_incremental %}
    left outer join gone using (message_id)
    {%- endif %}

),

-- A change in two messages is one change; the first with a real time counts.
repeats as (

    select
        *,
        if(
            reject_reason is null
            and row_number() over (
                partition by {{ place }}, if(kind = 'load', last_arrival, null), event_counter, kind, content_hash
                order by source_time is null, arrival, message_id
            ) > 1,
            'repeated: another message holds the same change',
            reject_reason
        ) as final_reason
        {%- if is_incremental %},
        -- No other message with the same change is read.
        count(*) over (
            partition by {{ place }}, if(kind = 'load', last_arrival, null), event_counter, kind, content_hash
        ) = 1 as is_alone
        {%- endif %}
        {%- if has_reloads and is_incremental %},
        -- The number of this rank among those that are free.
        if(
            numbers_gone is null,
            rank_of_place,
            aggregate(numbers_gone, rank_of_place, (number, gone) -> if(gone <= number, number + 1, number))
        ) as number_of_place
        {%- elif has_reloads %},
        rank_of_place as number_of_place
        {%- endif %}

    from copies
    where copy_number = 1

),

described as (

    select
        {% if has_reloads -%}
        concat(message_id, if(number_of_place > 1, concat('-', number_of_place), '')) as identity,
        {%- else -%}
        message_id as identity,
        {%- endif %}
        place,
        message_id,
        {{ "if(is_reload, 'reload', kind)" if has_reloads else 'kind' }} as kind,
        shared_place,
        own_key,
        last_arrival,
        event_counter,
        content_hash,
        image,
        before_image,
        has_old_key,
        if(kind in ('insert', 'update'), changed_columns, null) as changed_columns,
        if(kind in ('load', 'insert', 'update'), absent_columns, null) as absent_columns,
        coalesce(
            source_time,
            {%- if has_reloads %}
            if(is_reload, arrival.landed_at, null),
            {%- endif %}
            {{ afterimage._sequence_time('place') | indent(12) }}
        ) as changed_at,
        transaction_id,
        final_reason as reject_reason,
        nullif(
            concat({{ afterimage._texts_where([[no_time, afterimage._qlik_time_warning('place')]]) | indent(12) }}, oddities),
            cast(array() as array<string>)
        ) as warnings,
        copies as source_rows,
        {%- if is_incremental %}
        is_alone,
        {%- endif %}
        schema_id,
        first_position as message_position

    from repeats

)
{%- endmacro -%}
