{#- What an erasure touches:
    - `staging`, and `stream`: its table; `unique_key`: the columns that the given keys name,
    - `given`, `erased`: the keys as the list has them, those that were given, and with those that are linked; `texts`: the
      same as lists of texts,
    - `tables`: the tables below that have the key's columns; `rebuilt`: the names of those that are files without
      versions, `others`: of those that are not touched,
    - `raw`: what the staging model reads, which is not touched either.
    Tables are {name, relation, format, images}: where a row has its key. A raw table without the key's columns, such as
    one of messages, has no images. -#}
{%- macro _erasure_plan(staging, keys) -%}
    {%- set nodes = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') | list -%}
    {%- set node = nodes | selectattr('name', 'equalto', staging) | first -%}
    {%- if not node or afterimage._load_relation(ref(staging)) is none -%}
        {%- do exceptions.raise_compiler_error('erase: `staging` must be a model that was built. Got: ' ~ staging) -%}
    {%- endif -%}
    {%- set stream = afterimage._erasable(node, ['`before`.', '`after`.']) -%}
    {%- if not afterimage._has_versions(stream) -%}
        {%- do exceptions.raise_compiler_error(
            'erase: ' ~ staging ~ ' is a table of files without versions, which every run rebuilds. To leave a key out, add it'
            ~ ' to the list of erasures. Run dbt then.'
        ) -%}
    {%- endif -%}
    {%- set columns = afterimage._stream_columns('erase', stream.relation) -%}
    {%- set types = afterimage._column_types(columns) -%}
    {%- set unique_key = afterimage._named_by_keys(keys, types.keys() | list) -%}
    {%- do afterimage._check_whole_key(stream, unique_key) -%}
    {%- set texts = afterimage._key_texts(keys, unique_key, types) -%}
    {%- set linked = afterimage._linked_keys(stream.relation, unique_key, texts) -%}
    {%- set plan = {
        'staging': staging, 'stream': stream, 'unique_key': unique_key, 'texts': linked,
        'given': afterimage._as_listed(texts, unique_key), 'erased': afterimage._as_listed(linked, unique_key),
        'tables': [], 'rebuilt': [], 'others': [], 'raw': [],
    } -%}
    {%- for id in node.depends_on.nodes -%}
        {%- do plan.raw.append(afterimage._raw_table(id, unique_key)) -%}
    {%- endfor -%}
    {%- for below in afterimage._models_below(node, nodes) -%}
        {%- set relation = afterimage._load_relation(ref(below.package_name, below.name)) -%}
        {%- if relation is not none and relation.type == 'table' -%}
            {%- set table = afterimage._erasable(below, ['']) -%}
            {%- if afterimage._lacks_columns(relation, unique_key)
                or not afterimage._has_this_key(below, unique_key) -%}
                {%- do plan.others.append(below.name) -%}
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
    {%- set relation = ref(node.package_name, node.name) -%}
    {{ return({
        'name': node.name, 'relation': relation, 'format': afterimage._landing_format(relation), 'images': images
    }) }}
{%- endmacro -%}


{#- A table that a staging model reads. -#}
{%- macro _raw_table(id, unique_key) -%}
    {%- set node = graph.sources.get(id) or graph.nodes[id] -%}
    {%- set relation = source(node.source_name, node.name) if node.resource_type == 'source'
        else ref(node.package_name, node.name) -%}
    {{ return({
        'name': id.split('.')[2:] | join('.'), 'relation': relation, 'format': none,
        'images': [] if afterimage._lacks_columns(relation, unique_key) else [''],
    }) }}
{%- endmacro -%}


{%- macro _lacks_columns(relation, names) -%}
    {%- set found = afterimage._relation_columns(relation) | map(attribute='name') | map('lower') | list -%}
    {{ return(names | map('lower') | reject('in', found) | list | length > 0) }}
{%- endmacro -%}


{%- macro _has_versions(table) -%}
    {{ return(table.format not in [none, 'files']) }}
{%- endmacro -%}


{#- A column may have the key's name and be another entity's. A `table` gets such a row back in the next run; any other
    model must name the same key in its config, as histories and audits do. -#}
{%- macro _has_this_key(node, unique_key) -%}
    {%- set own = node.config.unique_key or [] -%}
    {%- set own = [own] if own is string else own -%}
    {{ return(
        node.config.materialized == 'table'
        or own | map('lower') | sort | list == unique_key | map('lower') | sort | list
    ) }}
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


{#- The columns that the given keys name, all the same ones. -#}
{%- macro _named_by_keys(keys, columns) -%}
    {%- set is_list = keys is sequence and keys is not string and keys is not mapping -%}
    {%- if not is_list or not keys or keys | reject('mapping') | list
        or keys | map('list') | map('sort') | map('join', ',') | unique | list | length > 1 -%}
        {%- do exceptions.raise_compiler_error(
            "erase: `keys` must be a list of keys, each with the same columns, such as [{id: 42}, {id: 43}]. Got: " ~ keys
        ) -%}
    {%- endif -%}
    {%- do afterimage._check_known('erase', 'keys', keys[0].keys() | list, columns) -%}
    {{ return(afterimage._in_column_order(keys[0].keys() | list, columns)) }}
{%- endmacro -%}


{#- Half a key would not be known again when rows land. -#}
{%- macro _check_whole_key(stream, unique_key) -%}
    {%- set remembered = afterimage._from_property(
        afterimage._table_properties(stream.relation).get('afterimage.keys')
    ) -%}
    {%- for known in fromjson(remembered or '[]') if known.key | sort != unique_key | sort -%}
        {%- do exceptions.raise_compiler_error(
            'erase: `keys` must name the whole key of ' ~ stream.name ~ ': ' ~ known.key | join(', ') ~ '. Got: '
            ~ unique_key | join(', ')
        ) -%}
    {%- endfor -%}
{%- endmacro -%}


{#- The given keys as lists of texts, each written as the table's type writes it. -#}
{%- macro _key_texts(keys, unique_key, types) -%}
    {%- set given = [] -%}
    {%- for key in keys -%}
        {%- set values = [] -%}
        {%- for name in unique_key -%}
            {%- for given_name in key if given_name | lower == name | lower -%}
                {%- do values.append(key[given_name] | string) -%}
            {%- endfor -%}
        {%- endfor -%}
        {%- do given.append(values) -%}
    {%- endfor -%}
    {%- set casts = [] -%}
    {%- for name in unique_key -%}
        {%- do casts.append('cast(cast(_key_' ~ loop.index ~ ' as ' ~ types[name] ~ ') as string)') -%}
    {%- endfor -%}
    {%- set texts = [] -%}
    {%- for row in run_query('select ' ~ casts | join(', ') ~ ' from ' ~ afterimage._inline_keys(given)).rows -%}
        {%- if row.values() | select('none') | list -%}
            {%- do exceptions.raise_compiler_error(
                'erase: `keys` must have values of the types of the columns. Got: ' ~ given[loop.index0] | join(', ')
            ) -%}
        {%- endif -%}
        {%- if row.values() | list not in texts -%}
            {%- do texts.append(row.values() | list) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(texts) }}
{%- endmacro -%}


{#- Keys as a table, with the columns of `_key_names`. -#}
{%- macro _inline_keys(texts) -%}
    {%- set rows = [] -%}
    {%- for values in texts -%}
        {%- do rows.append('(' ~ afterimage._each(values, '{name}') | join(', ') ~ ')') -%}
    {%- endfor -%}
    {{ return(
        '(values ' ~ rows | join(', ') ~ ' as inline_keys(' ~ afterimage._key_names(texts[0]) | join(', ') ~ '))'
    ) }}
{%- endmacro -%}


{%- macro _as_listed(texts, unique_key) -%}
    {%- set listed = [] -%}
    {%- for values in texts -%}
        {%- do listed.append(tojson(dict(zip(unique_key, values)))) -%}
    {%- endfor -%}
    {{ return(listed) }}
{%- endmacro -%}


{#- The given keys and all that key changes link with them, in either direction, however far. -#}
{%- macro _linked_keys(stream, unique_key, texts) -%}
    {%- set found = namespace(all=texts, last=texts) -%}
    {%- for _ in range(1000) if found.last -%}
        {%- set directions = [] -%}
        {%- for here, there in [('before', 'after'), ('after', 'before')] -%}
            {%- set direction -%}
                select {{ afterimage._each(unique_key, 'cast(changes.`' ~ there ~ '`.{column} as string) as {key}') | join(', ') }}
                from {{ stream }} as changes
                inner join {{ afterimage._inline_keys(found.last) }} as known_keys
                    on {{ afterimage._is_of_key('changes.`' ~ here ~ '`.', unique_key, 'known_keys') }}
                where
                    operation = 'update'
                    and reject_reason is null
                    and not ({{ afterimage._same_columns('`before`', '`after`', unique_key) }})
            {%- endset -%}
            {%- do directions.append(direction) -%}
        {%- endfor -%}
        {%- set new = [] -%}
        {%- for row in run_query(directions | join('\nunion\n')).rows if row.values() | list not in found.all -%}
            {%- do new.append(row.values() | list) -%}
        {%- endfor -%}
        {%- set found.all = found.all + new -%}
        {%- set found.last = new -%}
    {%- endfor -%}
    {{ return(found.all) }}
{%- endmacro -%}
