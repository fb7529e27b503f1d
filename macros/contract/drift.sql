{#- What must not have changed since the staging table was built: the data columns, and the rows that the raw table
    still holds. -#}


{#- Raises an error with a remedy if the data columns differ from those the staging table was built with. The run
    would fail anyway, since images are structs, but with an unreadable message. If columns were only added or have
    wider types and the model's `on_schema_change` allows it, it returns the new shape of the images instead (none if
    nothing has changed), to which the materialization alters them before it writes:
    - `columns`, `types`: all columns, and their types by name; `spelled`: types with the names of fields as they are,
    - `added`: the new columns; `widened`: those with a wider type, as _retyped lists them; of declared columns also those
      of a run that altered the table and did not come to its end,
    - `last_without`: by names, the last `ingested_at`, in microseconds, before an earlier run added the column,
    - `reason`: why all rows must be read again; none if what was read has the same values in the new shape.

    `columns` is a list of names, typed as in `relation`, or of {name, type}; then `table` is the source table
    whose rows count. `raw_table` is the first raw table, if that is another than `relation`. `further_columns` are the
    columns that the macro adds to the contract. `dbt docs generate` skips this check, so that one changed model does
    not keep the docs of all others from being written. -#}
{%- macro _check_drift(macro_name, relation, columns, further_columns=[], raw_table=none, table=none) -%}
    {%- if flags.WHICH == 'generate' or not afterimage._is_incremental() -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set present = run_query('describe query select * from ' ~ this).columns[0].values() -%}
    {%- set missing = (afterimage._contract_columns() + further_columns) | reject('in', present) | list -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            macro_name ~ ": " ~ this ~ " lacks " ~ missing ~ ", which this release of Afterimage or the macro's"
            ~ " arguments add. Run `dbt run --full-refresh --select " ~ model.name ~ "+`; copy the table first if rows"
            ~ " of the raw table have been deleted."
        ) -%}
    {%- endif -%}
    {%- set is_named = columns[0] is string -%}
    {%- set typed = afterimage._relation_columns(relation) if is_named else columns -%}
    {%- set types = afterimage._column_types(typed) -%}
    {%- set spelled = {} -%}
    {%- for column in typed -%}
        {%- do spelled.update({column.name: column.get('spelled', column.type)}) -%}
    {%- endfor -%}
    {%- set columns = columns if is_named else types.keys() | list -%}
    {#- A name with other capitals is another name, because `absent_columns` stores names as text. -#}
    {%- set built = afterimage._described('select `after`.* from ' ~ this) -%}
    {%- set known = built | map(attribute='name') | list -%}
    {%- set kept = columns | select('in', known) | list -%}
    {%- set retyped = afterimage._retyped(kept, types, built, raw_table or relation) -%}
    {%- set altered = {} -%}
    {%- if not is_named and afterimage._tracks_reads() -%}
        {%- set read = afterimage._stored_reads(afterimage._table_properties(this)) -%}
        {%- set remembered = read.get(afterimage._types_name(raw_table or relation, table)) -%}
        {%- do retyped.extend(afterimage._redeclared(remembered, kept, types)) -%}
        {%- if config.get('on_schema_change') == 'append_new_columns' -%}
            {%- do altered.update(fromjson(read.get('altered') or '{}')) -%}
        {%- endif -%}
    {%- elif known != columns | list and afterimage._tracks_reads()
        and config.get('on_schema_change') == 'append_new_columns' -%}
        {#- Without further changes, the intake knows by itself that all rows are read again. -#}
        {%- set read = afterimage._stored_reads(afterimage._table_properties(this)) -%}
        {%- do altered.update({'added': fromjson(read.get('altered') or '{}').get('added', [])}) -%}
    {%- endif -%}
    {%- if known == columns | list and not retyped and not altered -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set added = columns | reject('in', known) | list -%}
    {%- set dropped = known | reject('in', columns) | list -%}
    {%- set can_follow = known == kept and retyped | selectattr('widenings', 'none') | list == []
        and afterimage._tracks_reads() -%}
    {%- if can_follow and config.get('on_schema_change') == 'append_new_columns' -%}
        {%- do types.update(dict(zip(retyped | map(attribute='name'), retyped | map(attribute='found')))) -%}
        {%- set added = (altered.get('added', []) + added) | unique | list -%}
        {%- set retyped = altered.get('widened', []) + retyped -%}
        {#- A message may have a value that did not fit the narrow type. -#}
        {%- set keeps_values = is_named and afterimage._keeps_values(relation) -%}
        {{ return({
            'columns': columns | list,
            'types': types,
            'spelled': spelled,
            'added': added,
            'widened': retyped,
            'last_without': altered.get('last_without', {}),
            'reason': 'it has new columns' if added else none if keeps_values else 'its columns have wider types',
        }) }}
    {%- endif -%}
    {%- set differences = [] -%}
    {%- for what, names in {
        'added': added, 'dropped': dropped, 'of another type': afterimage._shown_types(retyped)
    }.items() if names -%}
        {%- do differences.append(what ~ ': ' ~ names | join(', ')) -%}
    {%- endfor -%}
    {%- do afterimage._refuse_drift(
        macro_name, relation, differences or ['in another order'],
        "Or set `on_schema_change: append_new_columns`." if can_follow
        else "All raw tables that the model unites must have the same columns."
        if afterimage._unites_tables(raw_table or relation, afterimage._built_with())
    ) -%}
{%- endmacro -%}


{#- The columns that have another type in the raw table than in the staging table, which was `built` with some: a list
    of {name, built, found, widenings}; see _widenings. -#}
{%- macro _retyped(columns, types, built, raw_table) -%}
    {%- set built = afterimage._column_types(built) -%}
    {#- In Spark's words, as a model may call an int `integer`. -#}
    {%- set row = 'select cast(null as ' ~ afterimage._row_type(columns, types) ~ ') as value' -%}
    {%- set found = afterimage._column_types(
        afterimage._described('select value.* from (' ~ row ~ ') as typed')
    ) if columns else {} -%}
    {%- set retyped = [] -%}
    {%- for name in columns if afterimage._stored_type(built[name]) != afterimage._stored_type(found[name]) -%}
        {%- set widenings = afterimage._widenings(built[name], found[name], [name]) -%}
        {#- A model that unites raw tables has the widest of their types. -#}
        {%- set is_united = widenings is none and afterimage._unites_tables(raw_table, afterimage._built_with())
            and afterimage._widenings(found[name], built[name], [name]) is not none -%}
        {%- do retyped.append({
            'name': name, 'built': built[name], 'found': found[name], 'widenings': widenings,
        }) if not is_united -%}
    {%- endfor -%}
    {{ return(retyped) }}
{%- endmacro -%}


{#- The name by which the declared types are remembered: a model may read several source tables from one log. -#}
{%- macro _types_name(relation, table) -%}
    {{ return(relation ~ (' ' ~ table | lower if table else '') ~ ' types') }}
{%- endmacro -%}


{#- The columns for which the model declares a wider type than in earlier runs, though a table of its format stores both
    as one: Iceberg has no smallint. `remembered` is what the table remembers of the types. A list as that of _retyped. -#}
{%- macro _redeclared(remembered, columns, types) -%}
    {%- set before = fromjson(remembered or '{}') -%}
    {%- set redeclared = [] -%}
    {%- for name in columns if name in before and before[name] != types[name] -%}
        {%- set forms, sizes = [], [] -%}
        {%- for type in [before[name], types[name]] -%}
            {%- set form = afterimage._described('select cast(null as ' ~ type ~ ') as value')[0].type -%}
            {%- do forms.append(form) -%}
            {%- do sizes.append(modules.re.findall('\\b(tinyint|smallint|int)\\b', form)) -%}
        {%- endfor -%}
        {#- What is narrower now was read into the same column as well, and keeps its values. -#}
        {%- set wider = [] -%}
        {%- for built, found in zip(*sizes) if built != found and (built == 'tinyint' or found == 'int') -%}
            {%- do wider.append(found) -%}
        {%- endfor -%}
        {%- if wider and afterimage._stored_type(forms[0]) == afterimage._stored_type(forms[1]) -%}
            {%- do redeclared.append({'name': name, 'built': forms[0], 'found': forms[1], 'widenings': []}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(redeclared) }}
{%- endmacro -%}


{#- Columns of another type as a message shows them. -#}
{%- macro _shown_types(retyped) -%}
    {%- set shown = [] -%}
    {%- for column in retyped -%}
        {%- do shown.append(column.name ~ ' (' ~ column.built ~ ', now ' ~ column.found ~ ')') -%}
    {%- endfor -%}
    {{ return(shown) }}
{%- endmacro -%}


{#- Raises an error if a key column has a wider type in which its values have other texts: change_ids are made of
    these. -#}
{%- macro _check_widened_key(macro_name, relation, unique_key, new_shape) -%}
    {%- set reworded = [] -%}
    {%- for column in (new_shape or {}).get('widened', []) if column.name in unique_key -%}
        {%- do reworded.append(column) if afterimage._rewords(column.widenings) -%}
    {%- endfor -%}
    {%- if reworded -%}
        {%- do afterimage._refuse_drift(
            macro_name, relation, ['of another type: ' ~ afterimage._shown_types(reworded) | join(', ')],
            "A column of the key cannot follow: 0.1 of a float is 0.10000000149011612 of a double."
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _refuse_drift(macro_name, relation, differences, advice=none) -%}
    {%- do exceptions.raise_compiler_error(
        macro_name ~ ": the columns of " ~ relation ~ " have changed since " ~ this ~ " was built ("
        ~ differences | join('; ') ~ "). Run `dbt run --full-refresh --select " ~ model.name
        ~ "+`; copy the table first if rows of the raw table have been deleted." ~ (' ' ~ advice if advice else '')
    ) -%}
{%- endmacro -%}


{#- Reports that rows of a raw table may be lost: it holds newer rows, but none of those that earlier runs took in,
    so the rows between them may be missing. `place` is SQL for a row's place in the order, `known` the place that
    earlier runs reached (none if they reached none). `is_change` separates changes from load rows. A
    sample (`--sample`) leaves earlier rows out on purpose. -#}
{%- macro _check_retention_gap(macro_name, relation, place, is_change, known) -%}
    {%- if known is none or afterimage._ignores_gaps(macro_name) or relation.event_time_filter -%}
        {{ return(none) }}
    {%- endif -%}
    {#- Two queries that each stop at the first row: in a healthy table nearly every file has one. -#}
    {%- set place_query -%}
        select {{ place }} from {{ relation }} where {{ is_change }} and {{ place }}
    {%- endset -%}
    {%- if run_query(place_query ~ ' <= ' ~ afterimage._literal(known) ~ ' limit 1').rows | length > 0 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set newer = afterimage._value(
        'select min(place) from (' ~ place_query ~ ' > ' ~ afterimage._literal(known) ~ ') as newer_rows(place)'
    ) -%}
    {%- if newer is not none -%}
        {%- do afterimage._report_gap(
            macro_name ~ ": " ~ relation ~ " begins at " ~ newer ~ ", but " ~ this ~ " has only read up to " ~ known
            ~ ". Rows between them may have been deleted before they were read. Land them again. Or set the var"
            ~ " afterimage_on_gap to 'ignore', if the table is emptied after each run on purpose; for one run, if the table is"
            ~ " a further one of the model."
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Whether the project wants to hear nothing of rows that may be lost. -#}
{%- macro _ignores_gaps(macro_name) -%}
    {%- set reaction = afterimage._setting('afterimage_on_gap') -%}
    {%- do afterimage._check_choice(macro_name, 'var afterimage_on_gap', reaction, ['warn', 'error', 'ignore']) -%}
    {{ return(reaction == 'ignore') }}
{%- endmacro -%}


{#- Warns that rows may be lost, or stops the run, as the project wants it. -#}
{%- macro _report_gap(message) -%}
    {%- if afterimage._setting('afterimage_on_gap') == 'error' -%}
        {%- do exceptions.raise_compiler_error(message) -%}
    {%- endif -%}
    {%- do exceptions.warn(message) -%}
{%- endmacro -%}
