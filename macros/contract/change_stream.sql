{#- Keeps a staging table: the changes that a source macro makes from raw rows, one row per change, keyed by change_id.

    The first run and a full refresh build the table. Any other run takes in what has landed since
    (macros/contract/intake.sql) and merges it in one commit; without changes there is no commit. After the commit,
    the table's properties store what was read from which raw table. If a run is killed in between, the next one
    repeats it with the same result. -#}
{% materialization change_stream, adapter='spark', supported_languages=['sql'] %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set existing_relation = load_relation(this) -%}
    {%- set intakes = afterimage._noted_intakes() -%}
    {%- do afterimage._check_format_kept(existing_relation) -%}

    {{ run_hooks(pre_hooks) }}
    {%- do afterimage._drop_old_scratch_tables(target_relation) -%}
    {%- set earlier = afterimage._version_left(target_relation, existing_relation, intakes) -%}

    {%- if afterimage._is_incremental() -%}
        {%- do afterimage._update_stream(target_relation, compiled_code, intakes) -%}
    {%- else -%}
        {%- do afterimage._build_stream(target_relation, existing_relation, compiled_code, intakes) -%}
    {%- endif -%}
    {%- do afterimage._forget_notes(intakes) -%}
    {%- do afterimage._check_none_is_gone(target_relation, earlier) -%}

    {%- do afterimage._complete_table(target_relation, existing_relation) -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{#- Builds the whole staging table. The same statement stores what was read. -#}
{%- macro _build_stream(target_relation, existing_relation, sql, intakes) -%}
    {%- do afterimage._refuse_other_shapes(intakes) -%}
    {#- Spark takes a second and more to analyse such a query. But no table must be dropped for one that is wrong. -#}
    {%- set is_of_macro = intakes and intakes[-1].get('end') == afterimage._query_end(sql) -%}
    {%- if is_of_macro and afterimage._of_model_format('traits')().replaces -%}
        {%- set missing = [] -%}
    {%- else -%}
        {%- set names = run_query('describe query ' ~ sql).columns[0].values() -%}
        {%- set missing = (afterimage._contract_columns() + ['ingested_at']) | reject('in', names) | list -%}
    {%- endif -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            'change_stream ' ~ model.name ~ ": the model must return the columns of the change contract, as a source"
            ~ " macro does. For any other table use dbt's `table` or `incremental`. Missing: " ~ missing | join(', ')
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_model_contract(sql) -%}
    {%- set properties = afterimage._of_model_format('properties')('staging', {}) -%}
    {%- if afterimage._tracks_reads() -%}
        {%- do properties.update({
            'afterimage.read': afterimage._as_property(tojson(afterimage._read_states(afterimage._tables_read(intakes)))),
            'afterimage.snapshot': '',
            'afterimage.keys': afterimage._keys_text(intakes),
        }) -%}
    {%- endif -%}
    {%- do afterimage._create_table_as(target_relation, existing_relation, properties, sql) -%}
    {%- if afterimage._tracks_reads() and afterimage._of_model_format('traits')().keeps_properties -%}
        {%- do afterimage._remember_read(target_relation, intakes, keeps_earlier=false) -%}
    {%- endif -%}
    {%- set counts = run_query(
        'select count(*) as changes, count(reject_reason) as rejected, current_timezone() as zone from '
        ~ target_relation
    ).rows[0] -%}
    {%- do log(model.name ~ ': built, ' ~ counts[0] ~ ' changes: ' ~ counts[1] ~ ' rejected', info=true) -%}
    {%- do afterimage._check_zone(counts[2]) -%}
{%- endmacro -%}


{#- Warns of a session whose time zone is not UTC. Times without a zone are read in it, and ids and places are made of
    times: what is read again in UTC would be other changes. -#}
{%- macro _check_zone(zone) -%}
    {%- if zone not in ['UTC', 'Etc/UTC', 'GMT', 'Z', '+00:00'] -%}
        {%- do exceptions.warn(
            'change_stream ' ~ model.name ~ ": the session's time zone is " ~ zone ~ ', and times without a zone are read'
            ~ ' in it. Set `spark.sql.session.timeZone: UTC`, then run `dbt run --full-refresh --select ' ~ model.name
            ~ '+`; copy the table first if rows of the raw table have been deleted.'
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- One incremental run. The model's SQL runs once, into a scratch table that later statements count and write. -#}
{%- macro _update_stream(target_relation, sql, intakes) -%}
    {%- set landed = afterimage._landed_text(intakes) -%}
    {%- if intakes | selectattr('new_shape') | list -%}
        {%- set built = afterimage._described('select `after`.* from ' ~ target_relation) -%}
        {%- do afterimage._refuse_other_shapes(intakes, built | map(attribute='name') | list) -%}
    {%- endif -%}
    {%- for intake in intakes if intake.new_shape -%}
        {%- do afterimage._alter_images(target_relation, intake.new_shape) -%}
    {%- endfor -%}
    {%- if intakes | length == 1 and sql | trim == intakes[0].idle | trim -%}
        {%- call noop_statement('main', 'OK') -%} -- nothing new {%- endcall -%}
        {%- do afterimage._remember_read(target_relation, intakes, keeps_earlier=true) -%}
        {%- do log(model.name ~ ': nothing new', info=true) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if intakes | selectattr('has_new_rules') | list -%}
        {%- do afterimage._note_both_rules(target_relation, intakes) -%}
    {%- endif -%}

    {%- set snapshot = afterimage._version(target_relation) -%}
    {%- set staged = afterimage._scratch_table(target_relation, 'staged', sql) -%}
    {%- set names = run_query('describe query select * from ' ~ staged).columns[0].values() -%}
    {%- set changes -%}
        {%- if 'afterimage_known_seq' in names -%}
        {{ staged }}
        {%- else -%}
        (
            select
                changes.*,
                known.change_seq as afterimage_known_seq

            from {{ staged }} as changes
            left outer join {{ target_relation }} as known
                on changes.change_id = known.change_id
        )
        {%- endif -%}
    {%- endset -%}
    {%- set names = afterimage._quoted(names | reject('equalto', 'afterimage_known_seq')) -%}
    {%- set counts = afterimage._summary(changes ~ ' as changes', dict(
        afterimage._place_bounds('change_seq', 'afterimage_known_seq'), **{
        'rows': 'count(*)',
        'new': 'count_if(reject_reason is null and afterimage_known_seq is null)',
        'known': 'count_if(reject_reason is null and afterimage_known_seq is not null)',
        'rejected': 'count_if(reject_reason <> ' ~ afterimage._replaced_reason() ~ ')',
        'zone': 'current_timezone()',
    })) -%}
    {%- if counts['rows'] == 0 -%}
        {%- call noop_statement('main', 'OK') -%} -- nothing new {%- endcall -%}
        {%- do log(model.name ~ ': ' ~ landed ~ 'nothing new', info=true) -%}
    {%- else -%}
        {%- set is_alone = afterimage._is_at_version(target_relation, snapshot) -%}
        {%- call statement('main') -%}
{{ afterimage._merge_rows(
    target_relation, 'select * from ' ~ staged ~ ' where ' ~ is_alone,
    'known.change_id = fresh.change_id and ' ~ afterimage._within_places(counts, 'known.change_seq'), names,
    removes='fresh.reject_reason = ' ~ afterimage._replaced_reason()
) }}
        {%- endcall -%}
        {#- Without a record of what was read, the next run reads everything once. -#}
        {%- do afterimage._of_model_format('refuse_if_overtaken')(target_relation, snapshot, {'afterimage.read': ''}) -%}
        {%- do log(
            model.name ~ ': ' ~ landed ~ (counts.new + counts.known + counts.rejected) ~ ' changes: ' ~ counts.new
            ~ ' new, ' ~ counts.known ~ ' known, ' ~ counts.rejected ~ ' rejected',
            info=true
        ) -%}
    {%- endif -%}
    {%- do afterimage._remember_read(target_relation, intakes, keeps_earlier=true, has_written=counts['rows'] > 0) -%}
    {%- do afterimage._drop_scratch_tables([staged]) -%}
    {%- do afterimage._compact_when_due(target_relation, 'staging', snapshot) -%}
    {%- do afterimage._check_zone(counts.zone) -%}
{%- endmacro -%}


{#- Gives both images their new shape, see _check_drift. A run that is killed in between leaves a part of it, and the
    next one adds the rest: `after` comes last, because the check looks there. If all rows must be read again, what was
    read is forgotten first, so that this run, or the next if it is killed, reads all that the raw table still holds.
    The note of what is new stays until one has. -#}
{%- macro _alter_images(target_relation, shape) -%}
    {%- if shape.reason -%}
        {%- set last = afterimage._value(
            'select coalesce(max(unix_micros(ingested_at)), 1) from ' ~ target_relation
        ) -%}
        {%- for name in shape.added if name not in shape.last_without -%}
            {%- do shape.last_without.update({name: last | int}) -%}
        {%- endfor -%}
        {%- do afterimage._set_properties(target_relation, {'afterimage.read': afterimage._as_property(tojson({
            'altered': tojson({'added': shape.added, 'widened': shape.widened, 'last_without': shape.last_without})
        }))}) -%}
    {%- endif -%}
    {%- for image in ['before', 'after'] -%}
        {%- set known = afterimage._column_types(
            afterimage._described('select `' ~ image ~ '`.* from ' ~ target_relation)
        ) -%}
        {%- set position = namespace(after='first') -%}
        {%- for name in shape.columns -%}
            {%- if name in known -%}
                {#- Of tables that a model unites, another may have the wider type. -#}
                {%- do afterimage._widen_columns(
                    target_relation, afterimage._widenings(known[name], shape.types[name], [image, name]) or []
                ) -%}
            {%- else -%}
                {%- do afterimage._of_model_format('before_add')(target_relation, name, shape.types[name]) -%}
                {%- do run_query(
                    'alter table ' ~ target_relation ~ ' add columns (`' ~ image ~ '`.' ~ afterimage._quote(name) ~ ' '
                    ~ shape.spelled[name] ~ ' ' ~ position.after ~ ')'
                ) -%}
            {%- endif -%}
            {%- set position.after = 'after ' ~ afterimage._quote(name) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for what, names in {
        'added the new columns': shape.added, 'widened': shape.widened | map(attribute='name') | list
    }.items() if names -%}
        {%- do log(model.name ~ ': ' ~ what ~ ' ' ~ names | join(', '), info=true) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- A property: by which key and other arguments each raw table is read, what an erasure leaves of the columns that its
    macro adds, which tables it reads, which of them rows may wait for, which hold no changes but what describes them,
    such as schemas, _parts_of_changes, and whether the model unites raw tables or once did (until a full refresh). -#}
{%- macro _keys_text(intakes) -%}
    {%- set keys = [] -%}
    {%- for intake in intakes -%}
        {%- do keys.append({
            'name': intake.raw_table, 'key': intake.key, 'made_by': intake.made_by, 'read_by': intake.read_by,
            'erased_columns': intake.erased_columns, 'without_changes': intake.without_changes, 'tables': intake.tables,
            'woken_by': intake.woken_by, 'parts': intake.parts,
            'united': intakes | length > 1 or intakes | selectattr('is_united') | list | length > 0,
        }) -%}
    {%- endfor -%}
    {{ return(afterimage._as_property(tojson(keys))) }}
{%- endmacro -%}


{#- The part of the log line about the rows read. -#}
{%- macro _landed_text(intakes) -%}
    {%- set parts = [] -%}
    {%- for table in intakes | sum(attribute='sides', start=[]) -%}
        {%- if table.reason -%}
            {%- set rows = 'rows' if table['count'] is none else table['count'] ~ ' rows' -%}
            {%- do parts.append('read all ' ~ rows ~ ' of ' ~ table.name ~ ' because ' ~ table.reason) -%}
        {%- elif table['count'] and table.state is not none -%}
            {%- do parts.append(table['count'] ~ ' rows landed') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if intakes | selectattr('is_woken') | list -%}
        {%- do parts.append('read all rows because earlier rows waited for what has landed') -%}
    {%- endif -%}
    {{ return(parts | join(', ') ~ ', ' if parts else '') }}
{%- endmacro -%}
