{#- How `scaffold` finds out what a table is. -#}

{#- A landed table by its name: the relation, its columns, the project's nodes that are this table, and how a model
    refers to it; `source` says which source has to be declared for that, if any. -#}
{%- macro _scaffold_landed(argument, name) -%}
    {%- do afterimage._check_text('scaffold', argument, name) -%}
    {%- if not execute -%}
        {{ return({'columns': []}) }}
    {%- endif -%}
    {%- set identifier = name.split('.')[-1] -%}
    {%- set schema = name.split('.')[:-1] | join('.') or target.schema -%}
    {#- Not by load_relation, which refuses a name with capitals, as OpenEdge's tables have. -#}
    {%- set relation = api.Relation.create(schema=schema, identifier=identifier) -%}
    {%- set columns = afterimage._relation_columns(relation) -%}
    {%- if not columns -%}
        {%- do exceptions.raise_compiler_error(
            "scaffold: `" ~ argument ~ "` must be a table that exists, as schema.table or, in the schema "
            ~ target.schema ~ ", by its name alone. Got: " ~ name
        ) -%}
    {%- endif -%}

    {#- The session's own catalog may stand before the schema or not. -#}
    {%- set catalog = (run_query('select current_catalog()').columns[0].values()[0] ~ '.') | lower -%}
    {%- set full_name = (schema ~ '.' ~ identifier) | lower -%}
    {%- set short_name = modules.re.sub('^' ~ modules.re.escape(catalog), '', full_name) -%}
    {%- set names = [full_name, short_name, catalog ~ full_name] -%}
    {%- set here = namespace(reference=none, nodes=[]) -%}
    {%- for node in graph.nodes.values() if node.resource_type in ['seed', 'model', 'snapshot'] -%}
        {%- if (node.schema ~ '.' ~ node.alias) | lower in names -%}
            {%- set here.reference = "ref('" ~ node.name ~ "')" -%}
            {%- set here.nodes = here.nodes + [node.unique_id] -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for node in graph.sources.values() -%}
        {%- if (node.schema ~ '.' ~ node.identifier) | lower in names -%}
            {%- set here.reference = "source('" ~ node.source_name ~ "', '" ~ node.name ~ "')" -%}
            {%- set here.nodes = here.nodes + [node.unique_id] -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set source_name = afterimage._scaffold_name(schema) -%}
    {{ return({
        'name': schema ~ '.' ~ identifier,
        'relation': relation,
        'identifier': identifier,
        'columns': columns,
        'nodes': here.nodes,
        'reference': here.reference or "source('" ~ source_name ~ "', '" ~ identifier ~ "')",
        'source': none if here.reference else {'name': source_name, 'schema': schema},
    }) }}
{%- endmacro -%}


{#- A text as the name of a model: lower case, and nothing but letters, digits and underscores. -#}
{%- macro _scaffold_name(text) -%}
    {{ return(modules.re.sub('[^a-z0-9]+', '_', text | lower).strip('_') or 'changes') }}
{%- endmacro -%}


{#- What each system's table is known by: its columns, each with the doc block that describes it, and which of them must
    be there. `PKnn` stands for PK01, PK02, …; `an envelope` is found in the rows. -#}
{%- macro _scaffold_systems() -%}
    {{ return([
        {
            'macro': 'qlik_change_table', 'folder': 'qlik', 'title': 'a Qlik change table',
            'needed': ['header__change_seq', ['header__change_oper', 'header__operation']],
            'columns': {
                'header__change_seq': 'change_seq', 'header__change_oper': 'change_oper',
                'header__change_mask': 'change_mask', 'header__stream_position': 'stream_position',
                'header__operation': 'operation', 'header__transaction_id': 'transaction_id',
                'header__timestamp': 'timestamp',
            },
        },
        {
            'macro': 'qlik_messages', 'folder': 'qlik', 'title': 'a landing of Qlik or Talend messages on Kafka',
            'needed': ['value', 'an envelope'],
            'columns': {
                'value': 'value', 'an envelope': none, 'key': none, 'topic': none, 'partition': none, 'offset': none,
                'timestamp': none,
            },
        },
        {
            'macro': 'netiq_event_log', 'folder': 'netiq', 'title': 'an Identity Manager JDBC event log',
            'needed': ['record_id', 'table_key', 'event_type'],
            'columns': {
                'record_id': 'record_id', 'status': 'status', 'event_type': 'event_type', 'event_time': 'event_time',
                'perpetrator': 'perpetrator', 'table_name': 'table_name', 'table_key': 'table_key',
                'column_name': 'column_name', 'old_value': 'old_value', 'new_value': 'new_value',
            },
        },
        {
            'macro': 'db2_change_data', 'folder': 'db2', 'title': 'a Db2 CD or CCD table',
            'needed': ['IBMSNAP_COMMITSEQ', 'IBMSNAP_INTENTSEQ', 'IBMSNAP_OPERATION'],
            'columns': {
                'IBMSNAP_COMMITSEQ': 'commitseq', 'IBMSNAP_INTENTSEQ': 'intentseq', 'IBMSNAP_OPERATION': 'operation',
            },
        },
        {
            'macro': 'db2_text_log', 'folder': 'db2', 'title': 'the log table of a Db2 text index',
            'needed': ['OPERATION', 'TIME', 'PKnn'],
            'columns': {'OPERATION': 'operation', 'TIME': 'time', 'PKnn': 'pk'},
        },
        {
            'macro': 'openedge_change_table', 'folder': 'openedge', 'title': 'an OpenEdge change table',
            'needed': ['_Change-Sequence', '_Operation'],
            'columns': {
                '_Tran-Id': 'tran_id', '_Time-Stamp': 'time_stamp', '_Change-Sequence': 'change_sequence',
                '_Continuation-Position': 'continuation_position', '_ArrayIndex': 'arrayindex',
                '_Fragment': 'fragment', '_Operation': 'operation',
            },
        },
    ]) }}
{%- endmacro -%}


{#- The form in which column names are compared: in any case, OpenEdge's with or without hyphens, Qlik's prefix by any
    name. -#}
{%- macro _scaffold_sign(name, prefix='header__') -%}
    {%- set name = name | lower -%}
    {%- set of_qlik = afterimage._qlik_header_name(name, prefix) -%}
    {%- if of_qlik is not none -%}
        {{ return('header__' ~ of_qlik) }}
    {%- elif name.startswith('_') -%}
        {{ return('_' ~ (name | replace('-', '') | replace('_', ''))) }}
    {%- endif -%}
    {{ return(modules.re.sub('^pk[0-9]+$', 'pknn', name)) }}
{%- endmacro -%}


{#- What the names of Qlik's header columns begin with, by the one that is always there. The longest prefix counts: a
    data column may have Qlik's own name. -#}
{%- macro _scaffold_prefix(landed, arguments) -%}
    {%- set found = namespace(prefix=arguments.get('header_prefix')) -%}
    {%- if found.prefix is none -%}
        {%- for column in landed.columns if (column.name | lower).endswith('change_seq') -%}
            {%- set prefix = column.name[:-10] -%}
            {%- if found.prefix is none or prefix | length > found.prefix | length -%}
                {%- set found.prefix = prefix -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return('header__' if found.prefix is none else found.prefix) }}
{%- endmacro -%}


{#- Which system wrote a table: {macro, folder, title, text, described (column -> doc block)}. -#}
{%- macro _scaffold_recognise(landed, system, arguments) -%}
    {%- set systems = afterimage._scaffold_systems() -%}
    {%- if system is not none -%}
        {%- do afterimage._check_choice('scaffold', 'system', system, systems | map(attribute='macro') | list) -%}
    {%- endif -%}

    {%- set prefix = afterimage._scaffold_prefix(landed, arguments) -%}
    {%- set signs = {} -%}
    {%- for column in landed.columns -%}
        {%- do signs.update({afterimage._scaffold_sign(column.name, prefix): column.name}) -%}
    {%- endfor -%}
    {%- for standard, here in arguments.get('column_names', {}).items() if here | lower in signs -%}
        {%- do signs.update({standard: signs[here | lower]}) -%}
    {%- endfor -%}
    {%- set value = arguments.get('value', 'value') | lower -%}
    {%- if value in signs -%}
        {%- do signs.update({'value': signs[value]}) -%}
        {%- if afterimage._scaffold_has_envelope(landed, signs[value]) -%}
            {%- do signs.update({'an envelope': 'an envelope in ' ~ signs[value]}) -%}
        {%- endif -%}
    {%- endif -%}

    {%- set best = namespace(found=none, share=-1) -%}
    {%- for candidate in systems if system is none or candidate.macro == system -%}
        {%- set here = [] -%}
        {%- set missing = [] -%}
        {%- set described = {} -%}
        {%- for name, doc_block in candidate.columns.items() -%}
            {%- set sign = afterimage._scaffold_sign(name) -%}
            {%- if sign in signs -%}
                {%- do here.append(signs[sign]) -%}
                {%- if doc_block -%}
                    {%- do described.update({signs[sign]: candidate.macro ~ '__' ~ doc_block}) -%}
                {%- endif -%}
            {%- else -%}
                {%- do missing.append(name) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- set lacks = namespace(any=false) -%}
        {%- for needed in candidate.needed -%}
            {%- set one_of = [needed] if needed is string else needed -%}
            {%- if not one_of | reject('in', missing) | list -%}
                {%- set lacks.any = true -%}
            {%- endif -%}
        {%- endfor -%}
        {%- set share = here | length / candidate.columns | length -%}
        {%- if (system is not none or not lacks.any) and share > best.share -%}
            {%- set best.share = share -%}
            {%- set best.found = {
                'macro': candidate.macro,
                'folder': candidate.folder,
                'title': candidate.title,
                'described': described,
                'text': landed.name ~ ' is ' ~ candidate.title ~ ': ' ~ here | length ~ ' of the '
                    ~ candidate.columns | length ~ ' things it is known by are there (' ~ here | join(', ') ~ ')'
                    ~ (', missing: ' ~ missing | join(', ') if missing else '') ~ '.',
            } -%}
        {%- endif -%}
    {%- endfor -%}

    {%- if best.found is none -%}
        {%- set known = [] -%}
        {%- for candidate in systems -%}
            {%- set signs = candidate.columns.keys() | join(', ') -%}
            {%- do known.append('  ' ~ candidate.macro ~ ', ' ~ candidate.title ~ ': ' ~ signs) -%}
        {%- endfor -%}
        {%- do exceptions.raise_compiler_error(
            "scaffold: " ~ landed.name ~ " is no change table of a known system. Where columns are called otherwise,"
            ~ " say which it is with `system`, and how in `arguments`. The systems, and what each is known by:\n"
            ~ known | join('\n') ~ "\nIt has: " ~ landed.columns | map(attribute='name') | join(', ')
        ) -%}
    {%- endif -%}
    {{ return(best.found) }}
{%- endmacro -%}


{#- Whether one of the first rows holds a Qlik message: in JSON with its envelope or without, or in Avro. -#}
{%- macro _scaffold_has_envelope(landed, value) -%}
    {%- set type = (landed.columns | selectattr('name', 'equalto', value) | first).type -%}
    {%- if type not in ['string', 'binary'] -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set column = afterimage._quote(value) -%}
    {%- set text = 'cast(' ~ column ~ ' as string)' -%}
    {%- set query -%}
        select count_if(
            get_json_object({{ text }}, '$.magic') = 'atMSG'
            or get_json_object({{ text }}, '$.headers.operation') is not null
            or get_json_object({{ text }}, '$.message.headers.operation') is not null
            {%- if type == 'binary' %}
            or contains({{ column }}, cast('atMSG' as binary))
            {%- endif %}
        )
        from (select {{ column }} from {{ landed.relation }} where {{ column }} is not null limit 100) as first_rows
    {%- endset -%}
    {{ return(run_query(query).columns[0].values()[0] > 0) }}
{%- endmacro -%}


{#- The models that a landed table has already, by what they do and not by their names: {staging, history, current,
    audit}, each a node or none; `streams` has the names of all that stage it. -#}
{%- macro _scaffold_existing(landed, found, table, name) -%}
    {%- set models = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') | list -%}
    {%- set streams = [] -%}
    {%- for model in models if 'macro.afterimage.' ~ found.macro in model.depends_on.macros -%}
        {#- A topic or an event log holds the changes of several tables. -#}
        {%- set of_table = modules.re.search("\\btable\\s*=\\s*['\"]([^'\"]*)['\"]", model.raw_code) -%}
        {%- set is_other = table and of_table
            and of_table[1].split('.')[-1] | trim | lower != table.split('.')[-1] | trim | lower -%}
        {%- if not is_other and model.depends_on.nodes | select('in', landed.nodes) | list -%}
            {%- do streams.append(model) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set staging = afterimage._scaffold_chosen(streams, name and 'stg_' ~ found.folder ~ '__' ~ name) -%}
    {%- set of_stream = [] -%}
    {%- for model in models if staging and staging.unique_id in model.depends_on.nodes -%}
        {%- do of_stream.append(model) -%}
    {%- endfor -%}
    {%- set histories = of_stream | selectattr('config.materialized', 'equalto', 'history') | list
        + afterimage._scaffold_callers(of_stream, 'scd2') -%}
    {%- set history = afterimage._scaffold_chosen(histories, name and name ~ '_history') -%}
    {%- set of_history = [] -%}
    {%- for model in models if history and history.unique_id in model.depends_on.nodes -%}
        {%- do of_history.append(model) -%}
    {%- endfor -%}
    {%- set currents = afterimage._scaffold_callers(of_history, 'current_state') -%}
    {%- set audits = of_stream | selectattr('config.materialized', 'equalto', 'audit') | list
        + afterimage._scaffold_callers(of_stream, 'change_audit') -%}
    {{ return({
        'streams': streams | map(attribute='name') | sort,
        'staging': staging,
        'history': history,
        'current': afterimage._scaffold_chosen(currents, name and name ~ '_current'),
        'audit': afterimage._scaffold_chosen(audits, name and name ~ '_audit'),
    }) }}
{%- endmacro -%}


{%- macro _scaffold_callers(models, macro_name) -%}
    {%- set callers = [] -%}
    {%- for model in models if 'macro.afterimage.' ~ macro_name in model.depends_on.macros -%}
        {%- do callers.append(model) -%}
    {%- endfor -%}
    {{ return(callers) }}
{%- endmacro -%}


{#- Of several models the one with the name that `scaffold` would give, else the first by name. -#}
{%- macro _scaffold_chosen(models, name) -%}
    {%- set named = models | selectattr('name', 'equalto', name) | list -%}
    {{ return((named + (models | sort(attribute='name')) + [none])[0]) }}
{%- endmacro -%}


{#- Stops where the new models would be tied to one that has their name and is of another table. -#}
{%- macro _scaffold_check_names(landed, names, systems) -%}
    {%- set there = {} -%}
    {%- for node in graph.nodes.values() if node.resource_type in ['seed', 'model', 'snapshot'] -%}
        {%- do there.update({node.name: node}) -%}
    {%- endfor -%}
    {%- set taken = [] -%}
    {%- if names.staging in there -%}
        {%- for system in systems if afterimage._scaffold_callers([there[names.staging]], system.macro) -%}
            {%- do taken.append(there[names.staging]) -%}
        {%- endfor -%}
    {%- else -%}
        {%- for name in [names.history, names.current, names.audit] if name in there -%}
            {%- do taken.append(there[name]) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if taken -%}
        {%- do afterimage._scaffold_stop(
            taken[0].name ~ " is in this project already (" ~ taken[0].original_file_path ~ ") and is not made from "
            ~ landed.name ~ ". Give `name`, after which the new models are called."
        ) -%}
    {%- endif -%}
{%- endmacro -%}
