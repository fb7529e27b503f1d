{#- Which raw tables an erasure touches: what the staging model reads, and what stands behind a model of dbt that it
    reads, since the next run would write the rows from there again. -#}


{#- Adds to the plan of an erasure its `raw_tables`, `raw_left`, `raw_gone` and `loses_rows`. Returns the ids of all
    that the staging model reads, and of what is behind it. `known` is what the staging table remembers, see
    _keys_text. -#}
{%- macro _add_raw_tables(plan, node, known, raw) -%}
    {%- set without_changes = known | map(attribute='without_changes') | select | sum(start=[]) -%}
    {%- set without_changes = without_changes | reject('in', known | map(attribute='name') | list) | list -%}
    {#- What the model reads beside its macro may be anything. -#}
    {%- set asked = known | map(attribute='tables') | select | sum(start=[]) -%}
    {%- set stored = afterimage._stored_reads(afterimage._table_properties(plan.stream.relation)) -%}
    {%- for name, asks in stored.items() if name.endswith(' asks') -%}
        {%- do asked.extend(fromjson(asks).tables + fromjson(asks).others) -%}
    {%- endfor -%}
    {%- set with_parts = plan.parts | map(attribute='name') | list -%}
    {%- set found = afterimage._reads_of(node) -%}
    {%- for id, reached in found.items() if not reached.is_passed -%}
        {%- set table = dict(afterimage._raw_table(id, plan.unique_key), **reached) -%}
        {%- if not table.is_gone and afterimage._has_rows_in_texts(table, known) -%}
            {%- do table.update({'images': []}) -%}
        {%- endif -%}
        {#- Other tables describe changes, such as a registry's schemas, which have the key's name, and no row of it.
            An earlier release did not remember which these are. -#}
        {%- if table.is_gone -%}
            {%- do plan.raw_gone.append(table.name) -%}
        {%- elif table.read_as not in without_changes and table.types | list | sort != ['id', 'schema'] -%}
            {#- Behind a model that joins tables, the key's name may be another entity's. Its rows would be lost. -#}
            {%- set why = none -%}
            {%- if raw and table.is_behind and table.is_ours -%}
                {%- set why = 'it has an erasure of its own' -%}
            {%- elif raw and table.is_behind and afterimage._lacks_columns(table.types, plan.key_types | list) -%}
                {%- set why = 'it lacks columns of ' ~ plan.staging ~ ', and its rows may be of other keys' -%}
            {%- endif -%}
            {%- set is_read = not asked or table.read_as in asked -%}
            {%- set is_erased = raw and not why and afterimage._has_versions(table) and is_read
                and (table.images or table.relation | string in with_parts) -%}
            {%- do plan['raw_tables' if is_erased else 'raw_left'].append(dict(table, why=why)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for id, reached in found.items() if raw and not reached.is_behind -%}
        {%- do afterimage._leave_unseen_rows(plan, id, reached.read_as) -%}
    {%- endfor -%}
    {%- if not asked and plan.raw_tables | map(attribute='read_as') | unique | list | length > 1 -%}
        {%- do exceptions.raise_compiler_error(
            'erase: `raw` must be false, as ' ~ plan.staging ~ ' does not remember which of these tables its source'
            ~ ' macro reads, and all have the columns of the key: '
            ~ plan.raw_tables | map(attribute='name') | join(', ')
            ~ ". Run the model first. A model of dbt's `incremental` never remembers it: delete the rows there"
            ~ ' yourself. Got: true'
        ) -%}
    {%- elif raw and not plan.raw_gone and not plan.raw_tables | selectattr('images') | list -%}
        {%- do exceptions.raise_compiler_error(
            'erase: `raw` must be false, as ' ~ plan.staging ~ ' reads no table of Iceberg or Delta with the columns of'
            ~ ' the key (those of an event log or of messages do not count: their rows are in texts). Delete the rows there'
            ~ ' yourself. Got: true'
        ) -%}
    {%- endif -%}
    {#- A view has lost its rows if all that is behind it has. -#}
    {%- set still_read = plan.raw_left | map(attribute='read_as') | list -%}
    {%- set of_raw = plan.raw_tables | map(attribute='relation') | map('string') | list
        + plan.raw_tables | map(attribute='read_as') | reject('in', still_read) | list -%}
    {%- set rows_left = known | map(attribute='name') | reject('in', of_raw) | list -%}
    {%- do plan.update({'loses_rows': plan.raw_tables != [] and not rows_left}) -%}
    {{ return(found | list) }}
{%- endmacro -%}


{#- Whether the values of rows are in texts, as in an event log or in messages, which name the table of a row: then a
    column with the key's name is another one, such as the number of an event. Where nothing remembers by which arguments
    the table was read, the columns tell. -#}
{%- macro _has_rows_in_texts(table, known) -%}
    {%- if known | selectattr('made_by', 'defined') | list -%}
        {{ return(table.read_as in known | selectattr('made_by.table', 'defined') | map(attribute='name') | list) }}
    {%- endif -%}
    {{ return(
        not afterimage._lacks_columns(table.types, ['record_id', 'table_key', 'event_type'])
        or not afterimage._lacks_columns(table.types, ['value', 'offset'])
    ) }}
{%- endmacro -%}


{#- Leaves alone what is behind a model that the staging model reads, if there are more rows of the keys than the model
    has. It may leave out those of another entity that has the same key, such as another company's. -#}
{%- macro _leave_unseen_rows(plan, id, read_as) -%}
    {%- set behind = plan.raw_tables | selectattr('is_behind') | selectattr('read_as', 'equalto', read_as) | list -%}
    {%- if behind -%}
        {%- set read = afterimage._raw_table(id, plan.unique_key) -%}
        {%- set counts = [] -%}
        {#- A model between has the rows of what it reads. -#}
        {%- for table in behind if table.kind != 'model' -%}
            {%- do counts.append(afterimage._rows_of_plan(table, plan)) -%}
        {%- endfor -%}
        {%- if read.is_gone or counts | sum > afterimage._rows_of_plan(read, plan) -%}
            {%- for table in behind -%}
                {%- do plan.raw_tables.remove(table) -%}
                {%- do plan.raw_left.append(dict(
                    table, why='not all rows of these keys are in ' ~ read_as
                    ~ ', so they may be of other rows (if that is not up to date, build it first)'
                )) -%}
            {%- endfor -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}


{#- What a staging model reads, and what is behind models of dbt among it, by id:
    - `read_as`: the table that the staging model reads, through which it is reached; `is_behind`: whether that is
      another one; `is_passed`: whether it has no rows of its own, as a view,
    - `is_ours`: whether it is a staging model, a history or an audit, which has an erasure of its own, so that nobody
      looks behind it; `kind`: what it is to dbt. -#}
{%- macro _reads_of(node) -%}
    {%- set list = afterimage._erasures_seed() -%}
    {%- set found, walk = {}, namespace(last=[]) -%}
    {%- for id in node.depends_on.nodes if not list or id != list.unique_id -%}
        {%- set relation = afterimage._relation_of_node(graph.sources.get(id) or graph.nodes[id]) -%}
        {%- do walk.last.append([id, relation | string]) -%}
    {%- endfor -%}
    {%- for _ in graph.nodes if walk.last -%}
        {%- set behind = [] -%}
        {%- for id, read_as in walk.last if id not in found -%}
            {%- set one = graph.sources.get(id) or graph.nodes[id] -%}
            {%- set is_model = one.resource_type == 'model' -%}
            {%- set is_ours = is_model and one.config.materialized in ['change_stream', 'history', 'audit'] -%}
            {%- do found.update({id: {
                'read_as': read_as, 'is_behind': id not in node.depends_on.nodes, 'is_ours': is_ours,
                'is_passed': is_model and one.config.materialized in ['view', 'ephemeral'], 'kind': one.resource_type,
            }}) -%}
            {%- for above in (one.depends_on.nodes if is_model and not is_ours else []) -%}
                {%- do behind.append([above, read_as]) -%}
            {%- endfor -%}
        {%- endfor -%}
        {%- set walk.last = behind -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro -%}


{#- A table that a staging model reads. -#}
{%- macro _raw_table(id, unique_key) -%}
    {%- set relation = afterimage._relation_of_node(graph.sources.get(id) or graph.nodes[id]) -%}
    {#- Spark shows an error here and does not raise it. Of a folder nothing else says that it is gone. -#}
    {%- set explained = run_query('explain select * from ' ~ relation).rows | map('first') | join(' ') -%}
    {%- if modules.re.search('(TABLE_OR_VIEW|SCHEMA|PATH)_NOT_FOUND|PATH_DOES_NOT_EXIST', explained) -%}
        {{ return({'name': id.split('.')[2:] | join('.'), 'is_gone': true}) }}
    {%- endif -%}
    {%- set types = afterimage._types_in_lower_case(relation) -%}
    {{ return({
        'name': id.split('.')[2:] | join('.'), 'relation': relation, 'format': afterimage._landing_format(relation),
        'images': [] if afterimage._lacks_columns(types, unique_key) else [''], 'types': types, 'is_raw': true,
    }) }}
{%- endmacro -%}


{#- What else to do about raw tables that are erased. What removes the files of their older versions may not tell them
    from those that a writer has not committed yet. dbt writes those tables that it makes again. -#}
{%- macro _lines_of_raw_tables(plan) -%}
    {%- set lines = [] -%}
    {%- for table in plan.raw_tables if table.kind == 'source' -%}
        {%- do lines.append(
            table.name ~ ': stop what writes to it until this has ended; of what is not committed yet, Delta would lose'
            ~ ' files, and with Iceberg this would end with an error over them'
        ) -%}
    {%- endfor -%}
    {%- for table in plan.raw_tables if table.kind == 'seed' -%}
        {%- do lines.append(table.name ~ ': `dbt seed` brings these rows back; delete them in its file too') -%}
    {%- endfor -%}
    {%- for table in plan.raw_tables if table.kind == 'model' -%}
        {%- set left = plan.raw_left | selectattr('is_behind') | selectattr('read_as', 'equalto', table.read_as)
            | map(attribute='name') | list -%}
        {%- do lines.append(
            table.name ~ ': dbt builds it again'
            ~ ('; what ' ~ left | join(', ') ~ ' has of these keys may come back' if left)
        ) -%}
    {%- endfor -%}
    {{ return(lines) }}
{%- endmacro -%}
