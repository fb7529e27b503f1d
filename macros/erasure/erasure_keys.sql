{#- The keys of an erasure: which are given, which are linked with them, and how a table has them. -#}


{#- The columns of the key, sorted. `known` is what the staging table remembers, see _keys_text. -#}
{%- macro _key_of_erasure(stream, keys, listed, columns, known) -%}
    {%- if (keys is none) == (not listed) -%}
        {%- do exceptions.raise_compiler_error(
            'erase: `keys` must be given, or `listed: true` for those of the list of erasures. Got: ' ~ keys
        ) -%}
    {%- endif -%}
    {%- if listed and not known -%}
        {%- do exceptions.raise_compiler_error(
            'erase: `keys` must be given, as ' ~ stream.name ~ ' is not a `change_stream`, which remembers its key. Got: none'
        ) -%}
    {%- endif -%}
    {%- set unique_key = afterimage._match_column_case(known[0].key, columns) if listed
        else afterimage._named_by_keys(keys, columns) -%}
    {#- Half a key would not be known again when rows land. -#}
    {%- for one in known if one.key | map('lower') | sort | list != unique_key | map('lower') | sort | list -%}
        {%- do exceptions.raise_compiler_error(
            'erase: `keys` must name the whole key of ' ~ stream.name ~ ': ' ~ one.key | join(', ') ~ '. Got: '
            ~ unique_key | join(', ')
        ) -%}
    {%- endfor -%}
    {{ return(unique_key | sort) }}
{%- endmacro -%}


{#- Where staging does not remember its key, the histories and audits that read it have it in their configs. -#}
{%- macro _check_is_whole(unique_key, staging, nodes) -%}
    {%- set given = unique_key | map('lower') | list -%}
    {%- for node in nodes if node.config.materialized in ['history', 'audit']
        and staging.unique_id in node.depends_on.nodes -%}
        {%- set own = afterimage._key_in_config(node) -%}
        {%- set more = own | map('lower') | reject('in', given) | list -%}
        {%- if more and own | length == more | length + given | length -%}
            {%- do exceptions.raise_compiler_error(
                'erase: `keys` must name the whole key of ' ~ staging.name ~ ', as ' ~ node.name ~ ' has it: '
                ~ own | join(', ') ~ '. Got: ' ~ unique_key | join(', ')
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}


{#- The keys of the list (see _erasures_of) that the stream has rows of, as lists of texts. -#}
{%- macro _listed_texts(stream, unique_key, erasures) -%}
    {%- if not erasures -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set found = [] -%}
    {%- for image in stream.images -%}
        {%- do found.append(
            'select ' ~ afterimage._key_column_texts(image, unique_key, erasures.types) | join(', ')
            ~ ' from ' ~ stream.relation ~ ' where '
            ~ afterimage._key_text_of(image, unique_key, erasures) ~ ' in (' ~ erasures.key_texts ~ ')'
        ) -%}
    {%- endfor -%}
    {%- set texts = [] -%}
    {%- for row in run_query(found | join('\nunion\n')).rows -%}
        {%- do texts.append(row.values() | list) -%}
    {%- endfor -%}
    {{ return(texts) }}
{%- endmacro -%}


{#- A key that somebody listed, and whose rows are there, would be erased too, but not those that it is linked with. -#}
{%- macro _check_others_are_erased(stream, unique_key, types, texts) -%}
    {%- set erasures = afterimage._erasures_of(stream.name, unique_key, types) -%}
    {%- set others = afterimage._listed_texts(stream, unique_key, erasures) | reject('in', texts) | list -%}
    {%- if others -%}
        {%- do exceptions.raise_compiler_error(
            'erase: the list of erasures has further keys of which ' ~ stream.name ~ ' has rows. Erase those first: run'
            ~ ' `afterimage erase ' ~ stream.name ~ ' --listed`. Got: ' ~ afterimage._as_listed(others, unique_key) | join(', ')
        ) -%}
    {%- endif -%}
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


{#- The given keys as lists of texts, each written as the table's type writes it. -#}
{%- macro _key_texts(keys, unique_key, types) -%}
    {%- set given = [] -%}
    {%- for key in keys -%}
        {%- set values = [] -%}
        {%- for name in unique_key -%}
            {%- for given_name in key if given_name | lower == name | lower -%}
                {%- if types[name] == 'string' and key[given_name] is not string -%}
                    {%- do exceptions.raise_compiler_error(
                        "erase: write the value of the text column " ~ name ~ " in quotes, as in {" ~ name ~ ": '0042'}."
                        ~ " Without them YAML reads 0042 as the number 34. A key has no NULL. Got: " ~ key[given_name]
                    ) -%}
                {%- endif -%}
                {%- do values.append(key[given_name] | string) -%}
            {%- endfor -%}
        {%- endfor -%}
        {%- do given.append(values) -%}
    {%- endfor -%}
    {%- set casts = [] -%}
    {%- for name in unique_key -%}
        {%- do casts.append(afterimage._key_column_text('_key_' ~ loop.index, 'string', types[name])) -%}
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
    {%- set rows, names = [], [] -%}
    {%- for values in texts -%}
        {%- set row = [] -%}
        {%- for value in values -%}
            {%- do row.append(afterimage._literal(value)) -%}
            {%- do names.append('_key_' ~ loop.index) if loop.index > names | length -%}
        {%- endfor -%}
        {%- do rows.append('(' ~ row | join(', ') ~ ')') -%}
    {%- endfor -%}
    {{ return('(values ' ~ rows | join(', ') ~ ' as inline_keys(' ~ names | join(', ') ~ '))') }}
{%- endmacro -%}


{%- macro _as_listed(texts, unique_key) -%}
    {%- set listed = [] -%}
    {%- for values in texts -%}
        {%- do listed.append(tojson(dict(zip(unique_key, values)))) -%}
    {%- endfor -%}
    {{ return(listed) }}
{%- endmacro -%}


{#- The given keys and all that key changes link with them, in either direction, however far. -#}
{%- macro _linked_keys(stream, unique_key, types, texts) -%}
    {%- set found = namespace(all=texts, last=texts) -%}
    {%- for _ in range(1000) if found.last -%}
        {%- set directions = [] -%}
        {%- for here, there in [('before', 'after'), ('after', 'before')] -%}
            {%- set direction -%}
                select {{ afterimage._key_column_texts('changes.`' ~ there ~ '`.', unique_key, types) | join(', ') }}
                from {{ stream }} as changes
                inner join {{ afterimage._inline_keys(found.last) }} as known_keys
                    on {{ afterimage._is_of_key('changes.`' ~ here ~ '`.', unique_key, types, 'known_keys') }}
                where
                    operation = 'update'
                    and `before` is not null
                    and `after` is not null
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


{#- The condition that an image is of a key of a table with the columns of `_key_names`. -#}
{%- macro _is_of_key(image, unique_key, types, keys) -%}
    {%- set conditions = [] -%}
    {%- for text in afterimage._key_column_texts(image, unique_key, types) -%}
        {%- do conditions.append(text ~ ' = ' ~ keys ~ '._key_' ~ loop.index) -%}
    {%- endfor -%}
    {{ return(conditions | join(' and ')) }}
{%- endmacro -%}


{#- The text of a key in a table, where its columns may have other types than in the staging table. A text of a raw
    table may have trailing blanks that the staging model has removed, so there it counts with them and without. -#}
{%- macro _key_texts_in(table, image, plan, salt) -%}
    {%- set found = [] -%}
    {%- for is_trimmed in [false, true] if table.is_raw or not is_trimmed -%}
        {%- set texts = [] -%}
        {%- for column in plan.unique_key -%}
            {%- set type = table.types.get(column | lower, plan.key_types[column]) -%}
            {%- set value = image ~ afterimage._quote(column) -%}
            {%- set value = 'rtrim(' ~ value ~ ')' if is_trimmed and type == 'string' else value -%}
            {%- do texts.append(afterimage._key_column_text(value, type, plan.key_types[column])) -%}
        {%- endfor -%}
        {%- do found.append(afterimage._key_text(texts, salt)) -%}
    {%- endfor -%}
    {{ return(found | unique | list) }}
{%- endmacro -%}


{#- A query for the texts of keys in a table, once each: those that a query returns, and where a text became a number, a
    time or a boolean in a table below, the keys as such: 042 is 42 there. Of a listed hash nobody can tell. -#}
{%- macro _key_texts_for(table, plan, key_texts, salt) -%}
    {%- set casts, retyped = [], [] -%}
    {%- for column in plan.unique_key -%}
        {%- set key = '_key_' ~ loop.index -%}
        {%- set type = table.types.get(column | lower, '') -%}
        {%- set is_retyped = plan.key_types[column] == 'string' and modules.re.match(
            '(tinyint|smallint|int|bigint|float|double|decimal|date|timestamp|boolean)', type
        ) -%}
        {%- do casts.append('cast(try_cast(' ~ key ~ ' as ' ~ type ~ ') as string)' if is_retyped else key) -%}
        {%- do retyped.append(column) if is_retyped -%}
    {%- endfor -%}
    {%- set queries = [key_texts] -%}
    {%- if retyped and not table.is_raw -%}
        {%- set given = afterimage._inline_keys(plan.texts) if plan.texts -%}
        {%- for keys in [given, (plan.erasures or {}).get('named')] | select -%}
            {%- do queries.append('select ' ~ afterimage._key_text(casts, salt) ~ ' from ' ~ keys) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(queries | join(' union ')) }}
{%- endmacro -%}


{#- Deletes the rows of erased changes that lack the key, such as the further parts of a split record, or the rows of a
    table that says who made a change. -#}
{%- macro _erase_parts(table, plan, erasures) -%}
    {%- for part in plan.parts if table.is_raw and part.name == table.relation | string -%}
        {%- set places = 'select distinct left(change_seq, ' ~ part.length ~ ') as place from ' ~ plan.stream.relation
            ~ " where startswith(change_id, 'erased-') or "
            ~ afterimage._has_key(plan.stream, plan, erasures.key_texts, erasures.salt) -%}
        {%- set lacks_key = afterimage._key_texts_in(table, 'known.', plan, erasures.salt)[0] ~ ' is null'
            if table.images else 'true' -%}
        {%- do run_query(
            'merge into ' ~ table.relation ~ ' as known using (' ~ places ~ ') as erased on ' ~ part.place
            ~ ' = erased.place and ' ~ lacks_key ~ ' and (' ~ part.where ~ ') when matched then delete'
        ) -%}
    {%- endfor -%}
{%- endmacro -%}
