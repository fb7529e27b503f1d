{#- Qlik data messages on Kafka -> change contract. Arguments: qlik_messages.yml. -#}
{%- macro qlik_messages(
    relation,
    unique_key,
    columns=none,
    table=none,
    value='value',
    metadata=none,
    complete_transactions=false,
    hold_back_hours=1
) -%}
    {%- do afterimage._check_names('qlik_messages', 'unique_key', unique_key, required=true) -%}
    {%- do afterimage._check_text('qlik_messages', 'table', table) if table is not none -%}
    {%- do afterimage._check_choice('qlik_messages', 'complete_transactions', complete_transactions, [true, false]) -%}
    {%- do afterimage._check_number('qlik_messages', 'hold_back_hours', hold_back_hours) -%}
    {%- set landing = afterimage._qlik_landing('qlik_messages', relation, value) -%}
    {%- set schema_rows = afterimage._qlik_schema_rows(metadata, value) -%}
    {%- set columns = afterimage._qlik_message_columns(columns, metadata, schema_rows, table) -%}
    {%- if landing is none or afterimage._needs_placeholder([metadata]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- do afterimage._check_called_once('qlik_messages', relation, table) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- do afterimage._check_known('qlik_messages', 'unique_key', unique_key, names) -%}
    {%- set new_shape = afterimage._check_drift(
        'qlik_messages', metadata or relation, columns, raw_table=relation, table=table
    ) -%}
    {%- set keys = afterimage._in_column_order(unique_key, names) -%}
    {%- set further_columns = ['schema_id', 'message_position'] -%}
    {%- set hold_back_hours = hold_back_hours if complete_transactions else none -%}
    {%- set intake = afterimage._intake(
        'qlik_messages', keys, afterimage._qlik_sides(relation, landing, metadata, schema_rows, table), new_shape,
        further_columns=further_columns,
        erased_columns={'schema_id': 'schema_id', 'message_position': 'message_position'},
        declared=columns, made_by=dict(
            {'table': table | lower if table else none, 'metadata': 'given' if metadata is not none else none},
            **({} if landing.has_topic else {'topic': landing.own_topic})
        )
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {#- Also where earlier runs alone had `complete_transactions`. -#}
    {%- set held_back = afterimage._qlik_held_back() if intake.kind == 'new' else [] -%}
    {%- if held_back -%}
        {%- set ranges = afterimage._merge_ranges(intake.extents + held_back) -%}
        {%- set intake = dict(intake, ranges=ranges, known_within=none) -%}
    {%- endif -%}
    {%- do afterimage._allow_many_steps() -%}
    {%- set side = intake.sides[0] -%}
    {%- set has_reloads = afterimage._qlik_may_hold_reloads(
        landing, side.landed if intake.kind == 'new' else side.rows
    ) -%}
    {#- Loads, which the bytes of Avro do not show, reloads and transactions have more that must be read with them. -#}
    {%- set has_all = intake.kind == 'new'
        and not (landing.is_binary or complete_transactions or held_back or has_reloads or intake.has_unplaced
            or side.may_be_gone)
        and not afterimage._qlik_has_met(landing, side.landed, intake.known_within) -%}
    {%- set fields = {
        'schema': 'string',
        'table': 'string',
        'headers': 'struct<operation: string, changeSequence: string, `timestamp`: string, transactionId: string,'
            ~ ' changeMask: string, columnMask: string, externalSchemaId: string, transactionEventCounter: string,'
            ~ ' transactionLastEvent: string, schema: string, `table`: string>',
        'data': 'map<string, string>',
        'beforeData': 'map<string, string>',
        'schemaId': 'string',
        'lineage': 'struct<schema: string, `table`: string>',
    } -%}
    {#- The arguments, and `names`: those of the columns, `schema_rows`: a query for the schemas (none without
        metadata), `has_avro`: whether messages may be in Avro, `has_reloads`: whether loads may follow changes,
        `usual`: what usual messages look like, none if none is sought. -#}
    {%- set layout = {
        'columns': columns,
        'names': names,
        'unique_key': keys,
        'table': table,
        'schema_rows': schema_rows,
        'complete_transactions': complete_transactions,
        'has_avro': landing.is_binary and schema_rows is not none,
        'has_reloads': has_reloads,
        'usual': afterimage._qlik_usual_form(relation, landing, intake, columns),
    } %}
with
{% if schema_rows is not none %}
{{ afterimage._qlik_message_schemas_by_id(schema_rows, names) }},
{% endif %}
{{ afterimage._qlik_opened_messages(
    side.landed if has_all else side.rows, landing, fields, 'message_schemas' if schema_rows is not none else none,
    none if has_all else afterimage._qlik_messages_to_open(intake, landing, has_reloads, hold_back_hours),
    afterimage._qlik_usual_steps(layout.usual, keys, fields) if layout.usual else [],
    landing.is_binary and schema_rows is not none and afterimage._are_many(relation, intake)
) }},

{{ afterimage._qlik_located_messages(layout) }},
{% if complete_transactions %}
{{ afterimage._qlik_transactions(hold_back_hours, intake.ranges) }}
{% endif %}
{{ afterimage._qlik_masked_messages(layout) }},
{% if layout.has_reloads %}
{{ afterimage._qlik_reloads(landing, has_table=table is not none) }}
{% endif %}
{{ afterimage._qlik_message_images(layout) }},

{{ afterimage._qlik_classified_messages(layout) }},

{{ afterimage._qlik_distinct_messages(layout, landing) }},

{#- Of several loads of a key the last one wins. A change has the name of its bytes, which a new column does not alter:
    to look for others would have Spark plan all of this twice more, which takes minutes and the heap. -#}
{{ afterimage._finish(
    intake, names, afterimage._column_types(columns), keys,
    lacks=['changed_by'],
    ties={
        'within': ['shared_place'],
        'order': "if(kind in ('load', 'reload'), last_arrival, null) desc, event_counter asc nulls last, content_hash asc",
    },
    old_key='has_old_key',
    further_columns=further_columns,
    known={
        'within': afterimage._qlik_known_within(intake, has_reloads, hold_back_hours),
        'unchanged_if': afterimage._qlik_stays_if(intake, layout, landing),
        'kept': afterimage._qlik_kept(landing, complete_transactions) if afterimage._is_incremental() else {},
        'carried': ['is_alone'] if afterimage._is_incremental() else [],
        'has_names_of_content': false,
    }
) }}
{% if held_back and not landing.unites and not intake.is_united %}
{{ afterimage._qlik_released(intake, landing, layout, hold_back_hours, further_columns) }}
{% endif %}
{%- endmacro -%}


{#- The condition that a change that was taken in stays as it is: what is missing now, events of its transaction, its
    schema or its first message, was there then. (A message in JSON is read without a schema, too, and one that names none
    by another, a copy by that of its own time. If earlier runs were given no metadata, its schema was never known.) -#}
{%- macro _qlik_stays_if(intake, layout, landing) -%}
    {%- set lacks = [] -%}
    {%- if layout.complete_transactions -%}
        {%- do lacks.append("changes.reject_reason like 'held back:%'") -%}
    {%- endif -%}
    {%- if layout.schema_rows is not none -%}
        {%- set no_schema = 'concat(' ~ afterimage._qlik_no_schema() ~ ', changes.schema_id)' -%}
        {%- set warns_of_id = 'array_contains(<row>.warnings, ' ~ no_schema ~ ')' -%}
        {%- set warns_of_first -%}
exists(<row>.warnings, w -> w like 'the message names no schema: %, the first of its table')
        {%- endset -%}
        {%- set is_read_by_another -%}
changes.schema_id is null
        and changes.changed_columns is not null
        and not (
            changes.changed_columns <=> known.changed_columns and changes.absent_columns <=> known.absent_columns
        )
        and {{ afterimage._qlik_lacks_first(landing) }}
        {%- endset -%}
        {%- for condition, warns in [
            (warns_of_id | replace('<row>', 'changes'), warns_of_id),
            (warns_of_first | replace('<row>', 'changes'), warns_of_first),
            (is_read_by_another, warns_of_first),
        ] if intake.is_asks_known or intake.had_wakes -%}
            {%- do lacks.append(
                '(' ~ condition ~ ' and not coalesce(' ~ warns | replace('<row>', 'known') ~ ', false))'
            ) -%}
        {%- endfor -%}
        {%- do lacks.append('changes.reject_reason = ' ~ no_schema) -%}
        {%- do lacks.append("changes.reject_reason rlike '^(the metadata message has no dataSchema:"
            ~ "|the message names no schema, and no metadata message describes its table$)'") -%}
    {%- endif -%}
    {{ return(
        'known.change_id is not null and known.reject_reason is null and (' ~ lacks | join(' or ') ~ ')'
        if lacks else none
    ) }}
{%- endmacro -%}


{#- What a change keeps of its stored row when fewer of its messages are landed: its first offset, by which reloads have
    their places, the time of a reload, which may be that of its landing, that another message, which is gone, holds the
    same change, and that its transaction was complete. -#}
{%- macro _qlik_kept(landing, complete_transactions) -%}
    {%- set lacks_first = afterimage._qlik_lacks_first(landing) -%}
    {%- set kept = {
        'message_position': 'if(' ~ lacks_first ~ ', known.message_position, changes.message_position)',
        'changed_at': 'if(' ~ lacks_first ~ ' and ' ~ afterimage._has_movable_place('known.change_seq')
            ~ ', known.changed_at, changes.changed_at)',
        'reject_reason': "if(known.reject_reason like 'repeated:%' and changes.reject_reason is null and changes.is_alone,"
            ~ ' known.reject_reason, changes.reject_reason)',
    } -%}
    {%- if complete_transactions -%}
        {%- set is_incomplete = "w -> startswith(w, 'the transaction is not complete:')" -%}
        {%- set warnings -%}
if(
        known.change_id is not null
        and known.reject_reason is null
        and not coalesce(exists(known.warnings, {{ is_incomplete }}), false),
        nullif(filter(changes.warnings, {{ is_incomplete | replace('->', '-> not') }}), cast(array() as array<string>)),
        changes.warnings
    )
        {%- endset -%}
        {%- do kept.update({'warnings': warnings}) -%}
    {%- endif -%}
    {{ return(kept) }}
{%- endmacro -%}


{#- The condition that the first message of a change is no longer landed, but a later one of its partition is. -#}
{%- macro _qlik_lacks_first(landing) -%}
known.message_position.`offset` < changes.message_position.`offset`
        and known.message_position.`partition` = changes.message_position.`partition`
        and {{ afterimage._qlik_known_topic(landing, 'known') }} <=> changes.message_position.topic
{%- endmacro -%}


{#- Whether an earlier run has met a message at a place of the landed ones, or one of them that has its place in its
    bytes alone. If not, none that landed earlier need be read with them. -#}
{%- macro _qlik_has_met(landing, landed, known_within) -%}
    {%- set query -%}
        select 1
        from {{ this }} as known
        where
            ({{ known_within or 'true' }})
            and left(known.change_seq, 35) in (
                select explode({{ afterimage._qlik_message_seqs(landing) }}) from {{ landed }} as landed
            )
        union all
        select 1
        from {{ this }} as known
        where
            known.change_seq = ''
            and left(known.change_id, 32) in (select md5({{ landing.value }}) from {{ landed }} as landed)
        limit 1
    {%- endset -%}
    {{ return(run_query(query).rows | length > 0) }}
{%- endmacro -%}
