{#- The messages, and the metadata if it lands in a table of its own, for the intake. Everything is read if a schema has
    arrived that a message waited for, or by which one that names no schema may be read; it may have any place. -#}
{%- macro _qlik_sides(relation, landing, metadata, schema_rows, table) -%}
    {%- set seqs = afterimage._qlik_message_seqs(landing) -%}
    {%- set messages = {
        'relation': relation,
        'place': 'explode_outer(array_distinct(' ~ seqs ~ '))',
        'has_place': 'coalesce(size(' ~ seqs ~ '), 0) > 0 and not ' ~ afterimage._qlik_is_load(landing),
        'reach': 8,
        'time': afterimage._sequence_time('array_max(' ~ seqs ~ ')'),
    } -%}
    {%- if schema_rows is none -%}
        {{ return([messages]) }}
    {%- endif -%}
    {%- set schemas = {
        'wakes': afterimage._qlik_has_arrived(schema_rows),
        'digest': afterimage._qlik_schemas_digest(schema_rows, table),
        'depends': afterimage._qlik_depends_on_schemas(),
    } -%}
    {%- if metadata | string == relation | string -%}
        {{ return([dict(messages, **schemas)]) }}
    {%- endif -%}
    {{ return([messages, dict(schemas, relation=metadata, holds_changes=false)]) }}
{%- endmacro -%}


{#- Whether a landed message is a load, which has no place, even if its bytes hold a changeSequence. A column of the row
    may be called `operation` as well. In Avro the bytes do not show a load. -#}
{%- macro _qlik_is_load(landing) -%}
    {{ return(
        'coalesce(' ~ afterimage._qlik_message_text(landing)
        ~ ' rlike ' ~ afterimage._literal('"headers"\\s*:\\s*\\{[^{}]*"operation"\\s*:\\s*"\\s*(?i:refresh)') ~ ', false)'
    ) }}
{%- endmacro -%}


{#- The changeSequences in the bytes of a landed message: one or none, unless the row itself holds something alike. -#}
{%- macro _qlik_message_seqs(landing) -%}
regexp_extract_all(
    {{ afterimage._qlik_message_text(landing) }}, {{ afterimage._literal(afterimage._qlik_seq_pattern(landing)) }}, 1
)
{%- endmacro -%}


{#- A pattern for a changeSequence in bytes. It begins with a plain text, which Java finds fastest. In Avro the byte F,
    its length, precedes it, and the byte after it may look like a digit. -#}
{%- macro _qlik_seq_pattern(landing) -%}
    {%- set in_json = '"changeSequence"\\s*:\\s*"?\\s*' -%}
    {{ return(
        '(?:' ~ in_json ~ '(?=[0-9]{35}(?![0-9]))|F)([0-9]{35})' if landing.is_binary
        else in_json ~ '([0-9]{35})(?![0-9])'
    ) }}
{%- endmacro -%}


{%- macro _qlik_message_text(landing) -%}
    {{ return("decode(" ~ landing.value ~ ", 'ISO-8859-1')" if landing.is_binary else landing.value) }}
{%- endmacro -%}


{#- A query that returns a row if a schema has arrived that messages of earlier runs wait for. -#}
{%- macro _qlik_has_arrived(schema_rows) -%}
select 1
from {{ this }} as staged
inner join (
    select distinct schema_id
    from ({{ schema_rows }}) as schema_rows
    where reject_reason is null
) as arrived
    on staged.schema_id = arrived.schema_id
where
    staged.reject_reason = concat({{ afterimage._qlik_no_schema() }}, staged.schema_id)
    or array_contains(staged.warnings, concat({{ afterimage._qlik_no_schema() }}, staged.schema_id))
limit 1
{%- endmacro -%}


{#- A query for a digest of all schemas of the table. A message that names no schema is read by one chosen among them,
    so any new schema may change the choice. One in Avro cannot be read if the `dataSchema` is missing or damaged. -#}
{%- macro _qlik_schemas_digest(schema_rows, table) -%}
select md5(to_json(sort_array(collect_set(
    struct(
        schema_id, schema_name, table_name, table_version, published_at, column_name, ordinal, is_lob,
        md5(data_schema) as data_schema
    )
))))
from ({{ schema_rows }}) as schema_rows
where
    reject_reason is null
    {%- if table is not none %}
    and {{ afterimage._is_table(table, 'schema_name', 'table_name') }}
    {%- endif %}
{%- endmacro -%}


{#- A query that returns a row if earlier runs have read messages that name no schema, or have failed to read one by
    the `dataSchema` of its own. -#}
{%- macro _qlik_depends_on_schemas() -%}
select 1
from {{ this }}
where
    if(
        schema_id is null,
        coalesce(reject_reason, '') not like 'tombstone:%',
        reject_reason rlike '^(not an Avro message|the metadata message has no dataSchema):'
    )
limit 1
{%- endmacro -%}


{#- Messages that were held back are read together with the places of landed ones: all from the first of them on. -#}
{%- macro _qlik_held_back() -%}
    {%- set first = afterimage._value(
        "select min(left(change_seq, 35)) from " ~ this ~ " where reject_reason like 'held back:%'"
    ) -%}
    {{ return([[first[:8], first, '9' * 35]] if first else []) }}
{%- endmacro -%}


{#- Whether a load message may follow a change in its partition. Checked at compile time, from the bytes alone:
    hardly any landing holds a reload, and placing one takes a second pass over all messages. For earlier runs the
    model's table has the answer. `rows` are the landed ones, or all if the run reads everything. -#}
{%- macro _qlik_may_hold_reloads(landing, rows) -%}
    {%- if not landing.has_offsets -%}
        {{ return(false) }}
    {%- elif '__dbt__cte__' in rows -%}
        {{ return(true) }}
    {%- endif -%}
    {%- set query -%}
        select count(*)
        from (
            select
                max(if(is_change, null, if(may_be_load, landed_offset, null)))
                > min(if(is_change, landed_offset, null)) as holds_reload

            from (
                select
                    {{ landing.topic }} as topic,
                    {{ landing.partition }} as landed_partition,
                    {{ landing.offset }} as landed_offset,
                    coalesce({{ afterimage._qlik_message_text(landing) }} rlike
                        {{ afterimage._literal(afterimage._qlik_seq_pattern(landing)) }}, false)
                    and not {{ afterimage._qlik_is_load(landing) }} as is_change,
                    {{ landing.value }} {{ 'is not null' if landing.is_binary else "ilike '%refresh%'" }} as may_be_load

                from {{ rows }} as landed
                {%- if afterimage._is_incremental() %}
                union all
                select
                    {{ afterimage._qlik_known_topic(landing, 'known') }} as topic,
                    known.message_position.`partition` as landed_partition,
                    known.message_position.`offset` as landed_offset,
                    change_seq <> '' and not {{ afterimage._has_movable_place('change_seq') }} as is_change,
                    coalesce(operation = 'load', false)
                    or {{ afterimage._has_movable_place('change_seq') }} as may_be_load

                from {{ this }} as known
                {%- endif %}
            ) as messages
            where landed_offset is not null
            group by topic, landed_partition
        ) as partitions
        where holds_reload
    {%- endset -%}
    {{ return(afterimage._value(query) > 0) }}
{%- endmacro -%}


{#- The condition for the messages to open, which their bytes show; none for all. Loads have no place in time, so all of
    them are read. -#}
{%- macro _qlik_messages_to_open(intake, landing, has_reloads, hold_back_hours) -%}
    {%- if intake.kind != 'new' -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set seqs = afterimage._qlik_message_seqs(landing) -%}
    {%- set conditions = [] -%}
    {%- if intake.ranges -%}
        {%- set within = afterimage._qlik_within('s', intake.ranges) -%}
        {%- if hold_back_hours is not none -%}
            {%- set within = afterimage._qlik_near_transactions(
                intake.ranges, afterimage._qlik_hours_between_events(hold_back_hours)
            ) -%}
        {%- endif -%}
        {%- do conditions.append('coalesce(exists(' ~ seqs ~ ', s -> ' ~ within ~ '), false)') -%}
    {%- endif -%}
    {%- if intake.has_unplaced or has_reloads -%}
        {%- do conditions.append('coalesce(size(' ~ seqs ~ '), 0) <= 0 or ' ~ afterimage._qlik_is_load(landing)) -%}
    {%- endif -%}
    {{ return(conditions | join(' or ')) }}
{%- endmacro -%}


{#- The condition that a changeSequence is in one of the ranges, each extended by some hours. -#}
{%- macro _qlik_within(seq, ranges, hours=0) -%}
    {%- set conditions = [] -%}
    {%- for first, last in ranges -%}
        {%- do conditions.append(
            seq ~ ' between ' ~ afterimage._qlik_hours_from(first, -hours) ~ ' and '
            ~ afterimage._qlik_hours_from(last, hours)
        ) -%}
    {%- endfor -%}
    {{ return('(' ~ conditions | join(' or ') ~ ')') }}
{%- endmacro -%}


{#- The same for all messages that may share a transaction with those in the ranges: those within the given hours of
    a range, and all known ones of the transactions there. -#}
{%- macro _qlik_near_transactions(ranges, hours) -%}
    {%- set near = afterimage._qlik_within('s', ranges, hours) -%}
    {%- set query -%}
        select
            left(change_seq, 8),
            min(left(change_seq, 35)),
            max(left(change_seq, 35))

        from {{ this }}
        where
            change_seq <> ''
            and transaction_id in (
                select transaction_id from {{ this }}
                where {{ afterimage._qlik_within('change_seq', ranges, hours) }}
            )
        group by 1
    {%- endset -%}
    {%- set extents = run_query(query).rows | map('list') | list -%}
    {{ return(near ~ ' or ' ~ afterimage._qlik_within('s', afterimage._merge_ranges(extents)) if extents else near) }}
{%- endmacro -%}


{#- SQL for the changeSequence some hours after another, or before it if the number is negative. -#}
{%- macro _qlik_hours_from(change_seq, hours) -%}
    {%- set seq = afterimage._literal(change_seq) -%}
    {%- if not hours -%}
        {{ return(seq) }}
    {%- endif -%}
    {%- set time -%}
        {{ afterimage._sequence_time(seq) }} + interval {{ hours }} hours + interval {{ 1 if hours > 0 else 0 }} seconds
    {%- endset -%}
    {{ return('coalesce(' ~ afterimage._qlik_seq_at(time) ~ ', ' ~ seq ~ ')') }}
{%- endmacro -%}


{#- The first change_seq of a second. It is in UTC, whatever the session's time zone. -#}
{%- macro _qlik_seq_at(time) -%}
concat(date_format(to_utc_timestamp({{ time }}, current_timezone()), 'yyyyMMddHHmmss'), repeat('0', 21))
{%- endmacro -%}


{#- Where the stored rows are that a run may meet; none if they may be anywhere: a reload's place may change, and a
    transaction has places other than those that landed. -#}
{%- macro _qlik_known_within(intake, has_reloads, hold_back_hours) -%}
    {%- if has_reloads or hold_back_hours is not none or not intake.known_within -%}
        {{ return(none) }}
    {%- endif -%}
    {#- A message that could not be read, or waits for its schema, has its place in its bytes alone. -#}
    {{ return(intake.known_within ~ " or (known.change_seq = '' and known.reject_reason is not null)") }}
{%- endmacro -%}
