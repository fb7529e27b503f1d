{#- Whether the model remembers what it has read. It needs a format that supports MERGE. -#}
{%- macro _tracks_reads() -%}
    {{ return(
        this is not none and model.config.materialized == 'change_stream' and afterimage._can_merge()
    ) }}
{%- endmacro -%}


{#- dbt's own `is_incremental` needs a table, which an ephemeral model or an inline query does not have, and it
    knows only dbt's own materialization. -#}
{%- macro _is_incremental() -%}
    {%- if not execute or not afterimage._tracks_reads() -%}
        {{ return(this is not none and is_incremental()) }}
    {%- endif -%}
    {%- set built = load_relation(this) -%}
    {{ return(built is not none and built.type == 'table' and not should_full_refresh()) }}
{%- endmacro -%}


{#- What the model's table remembers at the start of a run, in its properties:
    - `read`: raw table -> its state,
    - `built_with`: by which key and other arguments each raw table was read, see _keys_text,
    - `reason`: why there is no state, for the log line.
    With a `new_shape` (see _check_drift) all rows may have other values, so that nothing counts as read. -#}
{%- macro _remembered_reads(new_shape=none) -%}
    {%- if not (afterimage._tracks_reads() and afterimage._is_incremental()) or flags.WHICH not in ['run', 'build'] -%}
        {{ return({'read': {}, 'built_with': [], 'reason': none}) }}
    {%- endif -%}
    {#- The materialization checks this too, but Spark would refuse what is asked below. -#}
    {%- do afterimage._check_format_kept(load_relation(this)) -%}
    {%- set properties = afterimage._table_properties(this) -%}
    {%- set read = afterimage._stored_reads(properties) -%}
    {%- set reason = 'there is no record of what was read before' -%}
    {%- set noted = properties.get('afterimage.snapshot') -%}
    {%- if noted and afterimage._is_rolled_back(this, noted, afterimage._version(this)) -%}
        {%- set read = {} -%}
        {%- set reason = this ~ ' was rolled back' -%}
    {%- elif new_shape and new_shape.reason -%}
        {%- set read = {} -%}
        {%- set reason = new_shape.reason -%}
    {%- endif -%}
    {{ return({
        'read': read,
        'built_with': fromjson(afterimage._from_property(properties.get('afterimage.keys')) or '[]'),
        'reason': reason,
    }) }}
{%- endmacro -%}


{#- The `built_with` of _remembered_reads, whatever command runs. -#}
{%- macro _built_with() -%}
    {%- set keys = afterimage._table_properties(this).get('afterimage.keys') if afterimage._tracks_reads() else none -%}
    {{ return(fromjson(afterimage._from_property(keys) or '[]')) }}
{%- endmacro -%}


{#- Whether the table may have wider types than a raw table: it was built from several, each by a source macro of its
    own, or from another one. `built_with` says so until a full refresh, also once the model reads one alone. -#}
{%- macro _unites_tables(relation, built_with) -%}
    {%- set others = built_with | rejectattr('name', 'equalto', afterimage._whole(relation) | string) | list -%}
    {{ return(built_with | length > 1 or (others + built_with | selectattr('united') | list) | length > 0) }}
{%- endmacro -%}


{#- The states of the property `afterimage.read`, by name: of the raw tables, of what is remembered beside them (names
    with ` asks`, ` types` or ` digest` behind), and of a change of columns that no run has ended, see _alter_images. -#}
{%- macro _stored_reads(properties) -%}
    {{ return(fromjson(afterimage._from_property(properties.get('afterimage.read')) or '{}')) }}
{%- endmacro -%}


{#- What earlier runs have read of one raw table:
    - `state`: what they remembered of it,
    - `at`: for dbt's `incremental`, which remembers nothing, the time of the last run that took in rows, in
      microseconds; that run read what was there by then,
    - `reason`: why both are missing. -#}
{%- macro _read_before(name, remembered) -%}
    {%- if not afterimage._tracks_reads() -%}
        {{ return({'state': none, 'at': afterimage._last_run(), 'reason': none}) }}
    {%- endif -%}
    {{ return({'state': remembered.read.get(name), 'at': none, 'reason': remembered.reason}) }}
{%- endmacro -%}


{#- A time in the future does not say what was there by then. -#}
{%- macro _last_run() -%}
    {%- set last = afterimage._value('select unix_micros(max(ingested_at)) from ' ~ this) -%}
    {%- set now = afterimage._value('select unix_micros(current_timestamp())') -%}
    {{ return(last if last is not none and last <= now else none) }}
{%- endmacro -%}


{#- Tells the materialization what its source macros have decided. dbt compiles a model and then runs its
    materialization, each with variables of its own. What both have is the model's `meta`. -#}
{%- macro _note_intake(intake, unique_key, made_by, read_by) -%}
    {%- if not afterimage._tracks_reads() or flags.WHICH not in ['run', 'build'] -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set first = intake.sides[0].relation -%}
    {#- Plain values only: if the run fails, dbt writes them into its manifest. -#}
    {%- set sides = [] -%}
    {%- for side in intake.sides -%}
        {%- do sides.append({
            'name': side.name, 'state': side.state, 'is_remembered': side.is_remembered, 'count': side['count'],
            'reason': side.reason, 'views': side.views,
        }) -%}
        {%- if side.digest_now -%}
            {%- do sides.append({
                'name': side.name ~ ' digest', 'state': side.digest_now, 'is_remembered': false, 'count': 0, 'reason': none,
                'views': [],
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do sides.append({
        'name': intake.sides[0].name ~ ' asks', 'state': intake.asks,
        'is_remembered': intake.is_asks_known and intake.are_arguments_known, 'count': 0, 'reason': none, 'views': [],
    }) -%}
    {%- if intake.types -%}
        {%- do sides.append({
            'name': intake.types_name, 'state': intake.types, 'is_remembered': intake.are_types_known, 'count': 0,
            'reason': none, 'views': [],
        }) -%}
    {%- endif -%}
    {%- set note = {
        'run': invocation_id,
        'macro': intake.macro,
        'name': intake.sides[0].name,
        'raw_table': afterimage._whole(first) | string,
        'key': unique_key | map('lower') | sort,
        'made_by': made_by,
        'read_by': read_by,
        'erased_columns': intake.erased_columns,
        'without_changes': intake.sides | rejectattr('holds_changes') | map(attribute='name') | list,
        'tables': fromjson(intake.asks).tables + fromjson(intake.asks).others,
        'woken_by': fromjson(intake.asks).woken_by,
        'parts': afterimage._parts_of_changes(intake.sides),
        'sides': sides,
        'is_woken': intake.is_woken, 'has_new_rules': intake.has_new_rules,
        'is_partial': afterimage._is_partial(intake),
        'is_united': intake.is_united,
        'new_shape': intake.new_shape,
        'idle': intake.idle,
    } -%}
    {%- do config.model.config.meta.update({'afterimage_intakes': afterimage._noted_intakes() + [note]}) -%}
{%- endmacro -%}


{#- The tables in which rows of a change may lack its key: `name`, `place`, the SQL for the place of a row, its
    `length`, and `where`, which rows are read. -#}
{%- macro _parts_of_changes(sides) -%}
    {%- set parts = [] -%}
    {%- for side in sides if side.part_place -%}
        {%- do parts.append({
            'name': side.name, 'place': side.place, 'length': side.part_place, 'where': side.where,
        }) -%}
    {%- endfor -%}
    {{ return(parts) }}
{%- endmacro -%}


{#- How the query of a source macro ends. A model that ends so is that query, and has the columns of the contract. -#}
{%- macro _query_end(query) -%}
    {{ return(local_md5((query | trim)[-200:])) }}
{%- endmacro -%}


{#- Notes the end of a source macro's query, and the columns of its images with their types. -#}
{%- macro _note_end(query, columns, types) -%}
    {%- if afterimage._tracks_reads() and flags.WHICH in ['run', 'build'] -%}
        {%- do config.model.config.meta['afterimage_intakes'][-1].update({
            'end': afterimage._query_end(query), 'columns': columns | list, 'types': types,
        }) -%}
    {%- endif -%}
{%- endmacro -%}


{#- What an intake asks, as a text, so that `afterimage news` can ask the same without compiling the model: the `tables`
    of which it asks what has landed, `others` that it reads without asking, whether it `waits` for something else
    (a time, or what a table says that it does not ask), so that it must run each time, which of them it is `woken_by`, and
    which have `parts`, so that a table of an earlier release remembers these. -#}
{%- macro _asks(sides, waits_for_time, reads) -%}
    {%- set unasked = sides | rejectattr('is_tracked') | list -%}
    {%- set parts = sides | selectattr('part_place') | map(attribute='name') | list -%}
    {{ return(tojson(dict({'parts': parts} if parts else {}, **{
        'tables': sides | selectattr('is_tracked') | map(attribute='name') | list,
        'others': unasked | map(attribute='name') | list + reads | map('string') | list,
        'waits': waits_for_time or unasked | selectattr('wakes') | list | length > 0,
        'woken_by': sides | selectattr('wakes') | map(attribute='name') | list,
    }))) }}
{%- endmacro -%}


{#- The notes of this run: a process that lives longer may keep the model. -#}
{%- macro _noted_intakes() -%}
    {{ return(config.meta_get('afterimage_intakes', []) | selectattr('run', 'equalto', invocation_id) | list) }}
{%- endmacro -%}


{#- The materialization calls this at its end, so that the notes are not in dbt's manifest. -#}
{%- macro _forget_notes(intakes) -%}
    {%- for side in intakes | sum(attribute='sides', start=[]) -%}
        {%- do afterimage._drop_views(side.views) -%}
    {%- endfor -%}
    {%- do config.model.config.meta.pop('afterimage_intakes', none) -%}
{%- endmacro -%}


{%- macro _drop_views(views) -%}
    {%- for view in views -%}
        {%- do run_query('drop view if exists ' ~ view) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- The tables of the intakes whose state can be remembered. -#}
{%- macro _tables_read(intakes) -%}
    {{ return(intakes | sum(attribute='sides', start=[]) | rejectattr('state', 'none') | list) }}
{%- endmacro -%}


{#- What to remember: raw table -> its state. Of a table that several intakes of a model read, the first has looked
    earliest: what has landed since is news for the next run. -#}
{%- macro _read_states(tables) -%}
    {%- set states = {} -%}
    {%- for table in tables -%}
        {%- do states.setdefault(table.name, table.state) -%}
    {%- endfor -%}
    {{ return(states) }}
{%- endmacro -%}


{#- Stores what was read and by which key, and the snapshot of the model's table for which that holds. Of views alone
    nothing is new, but a run that `has_written` must note its snapshot: else a rollback of it would not show. -#}
{%- macro _remember_read(target_relation, intakes, keeps_earlier, has_written=false) -%}
    {%- set tables = afterimage._tables_read(intakes) -%}
    {%- if not has_written and tables | rejectattr('is_remembered') | list | length == 0 -%}
        {{ return(none) }}
    {%- endif -%}
    {#- A run with `--empty` or `--sample` leaves rows out. To write the earlier states again, with the snapshot of now,
        would hide a rollback of the table. Nor does it end a change of columns, or of arguments. -#}
    {%- if keeps_earlier and intakes | selectattr('is_partial') | list -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set read = afterimage._stored_reads(afterimage._table_properties(target_relation)) if keeps_earlier else {} -%}
    {#- What is asked of a table that the model no longer reads would be news for ever. -#}
    {%- for name in read.keys() | list if name.endswith(' asks') and name not in tables | map(attribute='name') -%}
        {%- do read.pop(name) -%}
    {%- endfor -%}
    {%- do read.pop('altered', none) -%}
    {%- do afterimage._set_properties(target_relation, {
        'afterimage.read': afterimage._as_property(tojson(dict(read, **afterimage._read_states(tables)))),
        'afterimage.snapshot': afterimage._noted_version(target_relation),
        'afterimage.keys': afterimage._keys_text(intakes),
    }) -%}
{%- endmacro -%}
