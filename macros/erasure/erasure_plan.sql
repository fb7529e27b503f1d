{#- What an erasure touches:
    - `staging`, and `stream`: its table; `unique_key`: the columns that the given keys name, sorted; `key_types`: their
      types,
    - `given`, `erased`: the keys as they are shown, those that were given, and with those that are linked; `texts`: the
      same as lists of texts; `erasures`: what is listed (see _erasures_of), if that is to be erased,
    - `tables`: the tables below that have this key; `rebuilt`: the names of those that are files without versions;
      `others`: those that are not touched, each with the reason, `why`; `beside`: the names of other models that read
      what the staging model reads,
    - `raw_tables`: what the staging model reads, and what is behind it (see _reads_of), if that is erased too, else
      `raw_left`, with the reason, `why`, if it is a special one; `raw_gone`: the names of what does not exist any longer;
      `loses_rows`: whether no row that a change of the keys counts is left,
    - `erased_columns`: see _intake; `parts`: see _parts_of_changes,
    - `kept`: the columns that stay, if intervals are kept; `token_types`: the types of the key's other columns.
    Tables are {name, relation, format, images, types, is_raw}: `images` is where a row has its key, and `types` are those
    of its columns, by names in lower case. A table without the key's columns, such as one of messages, has no images.
    Those below have `other_streams` too, the names of further staging models above. -#}
{%- macro _erasure_plan(staging, keys, listed, keep_intervals, raw) -%}
    {%- set nodes = graph.nodes.values() | selectattr('resource_type', 'in', ['model', 'snapshot']) | list -%}
    {#- All versions of a model have its name; their tables tell them apart, or else dbt's ids. -#}
    {%- set named = nodes | selectattr('unique_id', 'equalto', staging) | list
        or nodes | selectattr('name', 'equalto', staging) | list
        or nodes | selectattr('alias', 'equalto', staging) | list -%}
    {%- if named | length > 1 -%}
        {%- set tables = named | map(attribute='alias') | list -%}
        {%- set are_clear = staging not in tables and tables | unique | list | length == tables | length -%}
        {%- do exceptions.raise_compiler_error(
            'erase: `staging` must name one model. These are of that name, so name one, and then the others: '
            ~ (tables if are_clear else named | map(attribute='unique_id')) | sort | join(', ') ~ '. Got: ' ~ staging
        ) -%}
    {%- endif -%}
    {%- set node = named | first -%}
    {%- if not node or afterimage._load_relation(afterimage._relation_of_node(node)) is none -%}
        {%- do exceptions.raise_compiler_error('erase: `staging` must be a model that was built. Got: ' ~ staging) -%}
    {%- endif -%}
    {#- The list of erasures goes by this name. -#}
    {%- set staging = node.name -%}
    {%- set stream = dict(afterimage._erasable(node, ['`before`.', '`after`.']), types={}) -%}
    {%- if not afterimage._has_versions(stream) -%}
        {%- do exceptions.raise_compiler_error(
            'erase: ' ~ staging ~ ' is a table of files without versions, which every run rebuilds. To leave a key out, add it'
            ~ ' to the list of erasures. Run dbt then.'
        ) -%}
    {%- endif -%}
    {%- set types = afterimage._column_types(afterimage._stream_columns('erase', stream.relation)) -%}
    {%- set known = fromjson(afterimage._from_property(
        afterimage._table_properties(stream.relation).get('afterimage.keys')
    ) or '[]') -%}
    {%- set kept = afterimage._kept_columns(keep_intervals, types.keys() | list) -%}
    {%- set unique_key = afterimage._key_of_erasure(stream, keys, listed, types.keys() | list, known) -%}
    {%- if not known -%}
        {%- do afterimage._check_is_whole(unique_key, node, nodes) -%}
    {%- endif -%}
    {%- set erasures = afterimage._erasures_of(staging, unique_key, types) if listed else none -%}
    {%- set texts = afterimage._listed_texts(stream, unique_key, erasures) if listed
        else afterimage._key_texts(keys, unique_key, types) -%}
    {%- set linked = afterimage._linked_keys(stream.relation, unique_key, types, texts) if texts else [] -%}
    {%- do afterimage._check_others_are_erased(stream, unique_key, types, linked) if not listed -%}
    {%- set plan = {
        'staging': staging, 'stream': stream, 'unique_key': unique_key, 'key_types': types, 'texts': linked, 'erasures': erasures,
        'given': afterimage._as_listed(texts, unique_key), 'erased': afterimage._as_listed(linked, unique_key),
        'tables': [], 'rebuilt': [], 'others': [], 'beside': [], 'raw_tables': [], 'raw_left': [], 'raw_gone': [],
        'loses_rows': false, 'erased_columns': {}, 'parts': [],
        'kept': kept, 'token_types': afterimage._token_types(kept, unique_key, types),
    } -%}
    {%- for one in known -%}
        {%- do plan.parts.extend(one.parts or []) -%}
        {%- do plan.erased_columns.update(one.erased_columns or {}) -%}
    {%- endfor -%}
    {%- set ids_read = afterimage._add_raw_tables(plan, node, known, raw) -%}
    {%- set all_below = afterimage._models_below(node, nodes) -%}
    {%- set own = [node.unique_id] + all_below | map(attribute='unique_id') | list -%}
    {%- for other in nodes if other.unique_id not in own + ids_read
        and other.depends_on.nodes | select('in', ids_read) | list -%}
        {%- do plan.beside.append(other.alias if other.version else other.name) -%}
    {%- endfor -%}
    {%- for below in all_below if below.config.materialized != 'ephemeral' -%}
        {%- set relation = afterimage._load_relation(afterimage._relation_of_node(below)) -%}
        {%- if relation is not none and relation.type in ['table', none] and below.config.materialized != 'view' -%}
            {%- set table = afterimage._erasable(below, ['']) -%}
            {%- set origins = afterimage._other_origins(below, node) -%}
            {%- do table.update({'other_streams': origins | selectattr('is_stream') | map(attribute='name') | list}) -%}
            {%- if afterimage._lacks_columns(table.types, unique_key) -%}
                {%- do plan.others.append(dict(table, images=[], why='its rows do not have this key')) -%}
            {%- elif not afterimage._has_this_key(below, unique_key) -%}
                {%- do plan.others.append(dict(table, why='these columns are not its key')) -%}
            {%- elif origins and below.config.materialized not in ['table', 'history', 'audit'] -%}
                {%- do plan.others.append(dict(
                    table, why='this may be the key of ' ~ origins | map(attribute='name') | join(', ')
                    ~ ', which it has rows of too'
                )) -%}
            {%- elif afterimage._has_versions(table) -%}
                {%- do plan.tables.append(table) -%}
            {%- else -%}
                {%- do plan.rebuilt.append(below.name) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(plan) }}
{%- endmacro -%}


{#- A table that rows can be erased from. -#}
{%- macro _erasable(node, images) -%}
    {%- set relation = afterimage._relation_of_node(node) -%}
    {{ return({
        'name': node.name, 'relation': relation, 'format': afterimage._landing_format(relation), 'images': images,
        'types': afterimage._types_in_lower_case(relation), 'is_raw': false,
    }) }}
{%- endmacro -%}


{%- macro _types_in_lower_case(relation) -%}
    {%- set types = {} -%}
    {%- for column in afterimage._relation_columns(relation) -%}
        {%- do types.update({column.name | lower: column.type}) -%}
    {%- endfor -%}
    {{ return(types) }}
{%- endmacro -%}


{%- macro _lacks_columns(types, names) -%}
    {{ return(names | map('lower') | reject('in', types) | list | length > 0) }}
{%- endmacro -%}


{%- macro _has_versions(table) -%}
    {{ return(table.format not in [none, 'files']) }}
{%- endmacro -%}


{#- A column may have the key's name and be another entity's. A `table` gets such a row back in the next run; any other
    model must name the same key in its config, as histories and audits do. What has rows from elsewhere too may still
    mean the key of those. -#}
{%- macro _has_this_key(node, unique_key) -%}
    {{ return(
        node.config.materialized == 'table'
        or afterimage._key_in_config(node) | map('lower') | sort | list == unique_key | map('lower') | sort | list
    ) }}
{%- endmacro -%}


{%- macro _key_in_config(node) -%}
    {%- set own = node.config.unique_key or [] -%}
    {{ return([own] if own is string else own) }}
{%- endmacro -%}


{#- Where else than from its staging model the rows of a model may come: the other staging models, the sources, and the
    seeds and models that read nothing, to which a way leads that does not go through that one. -#}
{%- macro _other_origins(node, staging) -%}
    {%- set found, origins = [], [] -%}
    {%- set walk = namespace(last=node.depends_on.nodes) -%}
    {%- for _ in graph.nodes if walk.last -%}
        {%- set above = [] -%}
        {%- for id in walk.last | unique if id != staging.unique_id and id not in found -%}
            {%- set one = graph.nodes.get(id, {}) -%}
            {%- set is_stream = (one.config or {}).materialized == 'change_stream' -%}
            {%- set reads = [] if is_stream else (one.depends_on or {}).nodes or [] -%}
            {%- do found.append(id) -%}
            {%- do above.extend(reads) -%}
            {%- do origins.append({'name': id.split('.')[2:] | join('.'), 'is_stream': is_stream}) if not reads -%}
        {%- endfor -%}
        {%- set walk.last = above -%}
    {%- endfor -%}
    {{ return(origins) }}
{%- endmacro -%}


{#- The models below a model, in no order. -#}
{%- macro _models_below(node, nodes) -%}
    {%- set found = {} -%}
    {%- set walk = namespace(last=[node.unique_id]) -%}
    {%- for _ in nodes if walk.last -%}
        {%- set new = [] -%}
        {%- for one in nodes if one.unique_id not in found and one.depends_on.nodes | select('in', walk.last) | list -%}
            {%- do found.update({one.unique_id: one}) -%}
            {%- do new.append(one.unique_id) -%}
        {%- endfor -%}
        {%- set walk.last = new -%}
    {%- endfor -%}
    {{ return(found.values() | list) }}
{%- endmacro -%}


{#- What a dialect adds to the contract, such as the key of an event. -#}
{%- macro _further_columns(relation) -%}
    {{ return(
        afterimage._relation_columns(relation) | map(attribute='name')
        | reject('in', afterimage._contract_columns() + ['ingested_at']) | list
    ) }}
{%- endmacro -%}
