{#- How many hours may be between two events of a transaction. A task writes them within moments, however long a run
    waits for them. -#}
{%- macro _qlik_hours_between_events(hold_back_hours) -%}
    {{ return([hold_back_hours, 1] | max) }}
{%- endmacro -%}


{#- Which transactions are complete: the CTEs from `located` to `settled_transactions`. All messages of the relation
    count, whatever their table. Another transaction may reuse an id; its count then starts again. Missing messages
    may belong to a table that is not here, so a run waits for them no longer than `hours` of the stream. -#}
{%- macro _qlik_transactions(hours, ranges) -%}
{%- set w -%}
partition by coalesce(transaction_id, message_id) order by landed_seq, event_counter, message_id
{%- endset -%}
{%- set incomplete -%}
has_seq and transaction_id is not null and event_counter is not null and not coalesce(events_here = last_event, false)
{%- endset -%}
transaction_events as (

    select
        *,
        coalesce(
            event_counter < lag(event_counter) over ({{ w }})
            or (event_counter = lag(event_counter) over ({{ w }}) and landed_seq <> lag(landed_seq) over ({{ w }}))
            or {{ afterimage._sequence_time('landed_seq') | indent(12) }}
            > lag({{ afterimage._sequence_time('landed_seq') | indent(12) }}) over ({{ w }})
            + interval {{ afterimage._qlik_hours_between_events(hours) }} hours,
            false
        ) as restarts

    from located

),

numbered_transactions as (

    select
        *,
        count_if(restarts) over ({{ w }} rows between unbounded preceding and current row) as transaction_number

    from transaction_events

),

sized_transactions as (

    select
        *,
        size(collect_set(event_counter) over (in_transaction)) as events_here,
        max(if(is_last_event, event_counter, null)) over (in_transaction) as last_event,
        max(landed_seq) over (in_transaction) as last_seq
        {%- if ranges %},
        -- Other messages are read only to identify these transactions.
        max(
            not has_seq
            -- A load may have a changeSequence, which is no place.
            or coalesce(operation_word = 'REFRESH', false)
            or {{ afterimage._qlik_within('landed_seq', ranges) }}
        ) over (in_transaction) as has_landed
        {%- endif %}

    from numbered_transactions
    window in_transaction as (partition by coalesce(transaction_id, message_id), transaction_number)

),

settled_transactions as (

    select
        sized_transactions.*,
        {{ incomplete }} as is_incomplete,
        {{ incomplete }}
        and {{ afterimage._sequence_time('last_seq') | indent(8) }}
        >= {{ afterimage._sequence_time('newest_seq') | indent(8) }} - interval {{ hours }} hours as is_held_back

    from sized_transactions
    cross join (
        select
            greatest(
                max(landed_seq),
                '{{ afterimage._newest_place(35, at_most=afterimage._qlik_latest_seq()) or '' }}'
            ) as newest_seq
        from located
        where has_seq and landed_seq <= '{{ afterimage._qlik_latest_seq() }}'
    ) as newest
    {%- if ranges %}
    where has_landed
    {%- endif %}

),
{%- endmacro -%}


{#- Changes that were held back, and whose messages have left the raw table since: no run reads them again. Once they
    have waited long enough, they are taken in as they are stored. (Which raw table they were of, a model of several does
    not say.) -#}
{%- macro _qlik_released(intake, landing, layout, hours, further_columns) -%}
{%- set erasures = afterimage._erasures_of(
    model.name, layout.unique_key, afterimage._column_types(layout.columns)
) if execute else none -%}
{%- set newest = [afterimage._newest_place(35, at_most=afterimage._qlik_latest_seq()) or ''] -%}
{%- for _beginning, _first, last in intake.extents if last <= afterimage._qlik_latest_seq() -%}
    {%- do newest.append(last) -%}
{%- endfor -%}
{%- set released = {'reject_reason': 'cast(null as string)', 'ingested_at': afterimage._ingested_at()} -%}
{%- if hours is not none -%}
    {%- do released.update({
        'warnings': 'concat(coalesce(known.warnings, cast(array() as array<string>)), '
            ~ "array('the transaction is not complete: messages of it have left the raw table'))"
    }) -%}
{%- endif -%}
union all
select
    {%- for column in afterimage._contract_columns() + ['ingested_at'] + further_columns %}
    {{ released.get(column, 'known.' ~ afterimage._quote(column)) }} as {{ afterimage._quote(column) }}
    {{- ',' if not loop.last }}
    {%- endfor %}
    {{- ', known.change_seq as afterimage_known_seq' if afterimage._tracks_reads() }}

from {{ this }} as known
left anti join {{ intake.sides[0].rows }} as landed
    on left(known.change_id, 32) = md5(landed.{{ landing.value }})
where
    known.reject_reason like 'held back:%'
    -- The id of an erased change does not say its message.
    and not startswith(known.change_id, 'erased-')
    {%- for image in ['known.`before`.', 'known.`after`.'] if erasures %}
    -- Nor may one that is listed since count before `erase` has run.
    and not coalesce({{ afterimage._key_text_of(image, layout.unique_key, erasures) }} in ({{ erasures.key_texts }}), false)
    {%- endfor %}
    {%- if hours is not none %}
    and {{ afterimage._sequence_time('known.change_seq') | indent(4) }}
    < {{ afterimage._sequence_time(afterimage._literal(newest | max)) | indent(4) }} - interval {{ hours }} hours
    {%- endif %}
{%- endmacro -%}
