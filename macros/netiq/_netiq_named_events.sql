{#- The CTEs from `addressed` to `named_events`: each event once, with its identity and its place. -#}
{%- macro _netiq_named_events(layout) -%}
{%- set number = "if(number_of_record > 1, " ~ afterimage._tie_suffix('number_of_record') ~ ", '')" -%}
-- A row that lands again is one event, even if the driver has changed its status in between. record_id is unique by
-- contract. If it is not, the events are in a declared order: delete last.
copies as (

    select
        *,
        row_number() over (
            partition by object_id, content_hash
            order by is_eligible desc, status asc nulls last
        ) as copy_number,
        count(*) over (partition by object_id, content_hash) as copies,
        dense_rank() over (
            partition by object_id, record_no, key_label
            order by
                no_table is not null asc,
                array_position(array(1, 5, 7, 2, 3, 6, 8, 4), event_type) asc,
                content_hash asc
        ) as number_of_record,
        size(
            collect_set(if(no_table is null, content_hash, null)) over (partition by object_id, record_no)
        ) as events_of_record

    from addressed

),

named_events as (

    select
        *,
        if(
            record_no is null,
            concat('unordered-', content_hash),
            concat(record_no, {{ number }}, '-', key_label)
        ) as event_id,
        if(
            record_no is null{{ ' or event_time is null' if layout.future_events }},
            '',
            concat(
                {%- if layout.future_events %}
                date_format(event_time, 'yyyyMMddHHmmssSSSSSS'),
                '-',
                {%- endif %}
                record_no,
                {{ number }}
            )
        ) as event_seq,
        case
            when event_type = 1 then 'insert'
            when event_type in (2, 3) then 'update'
            when event_type = 4 then 'delete'
            when event_type = 5 then 'row_insert'
            when event_type = 6 then 'row_update'
            when event_type = 7 then 'field_insert'
            when event_type = 8 then 'field_update'
        end as kind

    from copies
    where copy_number = 1

)
{%- endmacro -%}
