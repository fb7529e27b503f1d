{#- The CTE `reloads`: the place of each load message that follows a change in its partition. It comes right after
    the greatest changeSequence of the earlier offsets, if possible of those that were not in the future when they landed:
    behind such a place, all that follows would be hidden. All loads of a reload share one place, which begins with
    that changeSequence and ends in the offset of the last change. Changes of earlier runs count without being read
    again. -#}
{%- macro _qlik_reloads(landing, has_table) -%}
reloads as (

    select
        message_id,
        message_position,
        concat(last_seq, '.r', lpad(last_offset, 19, '0')) as place

    from (
        select
            message_id,
            struct(topic, `partition`, `offset`) as message_position,
            is_load,
            coalesce(
                max(if(is_ahead, null, landed_seq)) over (earlier),
                max(landed_seq) over (earlier)
            ) as last_seq,
            max(if(is_load, null, `offset`)) over (earlier) as last_offset

        from (
            -- A change that was written again counts where it was written first; a load counts wherever it is.
            select
                message_id,
                topic,
                `partition`,
                min(`offset`) as `offset`,
                landed_seq is null as is_load,
                -- By the time of its landing, not of this run: a reload must stay where it is.
                coalesce(
                    max({{ afterimage._sequence_time('landed_seq') | indent(20) }} > landed_at + interval 1 day), false
                ) as is_ahead,
                landed_seq

            from (
                select
                    message_id,
                    message_position.topic,
                    message_position.`partition`,
                    message_position.`offset`,
                    arrival.landed_at,
                    if(operation_word = 'REFRESH', null, landed_seq) as landed_seq

                from masked
                where
                    (operation_word = 'REFRESH' or (operation_word in ('INSERT', 'UPDATE', 'DELETE') and has_seq))
                    {%- if has_table %}
                    and not coalesce(is_of_another_table, false)
                    {%- endif %}
                {%- if afterimage._is_incremental() %}
                union all
                select
                    known.change_id as message_id,
                    {{ afterimage._qlik_known_topic(landing, 'known') }} as topic,
                    known.message_position.`partition`,
                    known.message_position.`offset`,
                    known.ingested_at as landed_at,
                    left(known.change_seq, 35) as landed_seq

                from {{ this }} as known
                where
                    operation in ('insert', 'update', 'delete')
                    and change_seq <> ''
                    and not {{ afterimage._has_movable_place('change_seq') }}
                    {%- if has_table %}
                    and not coalesce(reject_reason like 'of another table:%', false)
                    {%- endif %}
                {%- endif %}
            ) as positions
            where `offset` is not null
            group by message_id, topic, `partition`, landed_seq, if(landed_seq is null, `offset`, null)
        ) as distinct_positions
        window
            earlier as (
                partition by topic, `partition` order by `offset` range between unbounded preceding and 1 preceding
            )
    ) as placed_messages
    where is_load and last_offset is not null

),
{%- endmacro -%}
