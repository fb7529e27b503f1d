{#- The list of erasures has the columns `model`, `erased_key` (`{"id": "42"}`, or `sha256:` and a hash, see
    `_key_text`), `requested_at`, `reference`, and `kept`, which it may lack: NULL, or, if intervals are kept, the names of
    the `columns` that stay and the `token` and the `types` of the key's columns, as JSON. -#}


{#- It is the table that the var `afterimage_erasures` names (schema.table), or `afterimage_erasures` in the target's
    schema: a seed, a table of anyone's, or what `erase` makes. -#}
{%- macro _erasures_table() -%}
    {%- set named = (var('afterimage_erasures', none) or 'afterimage_erasures').split('.') -%}
    {{ return(api.Relation.create(
        schema=named[:-1] | join('.') or target.schema, identifier=named[-1], type='table'
    )) }}
{%- endmacro -%}


{#- The seed that is the list, if one is. -#}
{%- macro _erasures_seed() -%}
    {%- set list = afterimage._erasures_table() -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'seed' and node.schema | lower == list.schema | lower
        and node.alias | lower == list.identifier | lower -%}
        {{ return(node) }}
    {%- endfor -%}
{%- endmacro -%}


{#- What was erased of a model, none if nothing was:
    - `keys`: a query for the texts of its keys (`key_text`, see `_key_text`), with what is `kept`, its names in lower
      case; `key_texts`: one for the texts alone; `named`: those that are no hashes, with the columns of `_key_names`,
    - `salt`: what is hashed with the keys; none if the list has them as they are,
    - `types`: as given,
    - `token_types`: the types of the key's columns that have tokens, by names in lower case, if the intervals of some
      keys are kept.
    `types` are those of the columns, by name. `listed` is the list, if it is known to exist. -#}
{%- macro _erasures_of(name, unique_key, types, listed=none) -%}
    {%- set listed = listed or afterimage._load_relation(afterimage._erasures_table()) -%}
    {%- if listed is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set of_model = afterimage._listed_keys(listed) ~ ' where model = ' ~ afterimage._literal(name) -%}
    {%- set is_hash = "coalesce(startswith(erased_key, 'sha256:'), false)" -%}
    {#- Somebody may have listed 042 for the number 42. -#}
    {%- set texts = [] -%}
    {%- for column in unique_key | sort -%}
        {%- do texts.append(afterimage._key_column_text(
            'named_values[' ~ afterimage._literal(column | lower) ~ ']', 'string', types.get(column, types.get(column | lower))
        )) -%}
    {%- endfor -%}
    {%- set ways = run_query(
        'select ' ~ is_hash ~ ", get_json_object(kept, '$.types'), count(*) - count(if(" ~ is_hash ~ ", '', "
        ~ afterimage._key_text(texts, none) ~ ')) from ' ~ of_model ~ ' group by 1, 2'
    ).rows -%}
    {%- if ways | map(attribute=2) | select | list -%}
        {%- do exceptions.raise_compiler_error(
            name ~ ': ' ~ listed ~ ' has keys of this model without a value for each column of its key ('
            ~ unique_key | join(', ') ~ '), or with one that is not of the type of the column. Correct them.'
        ) -%}
    {%- endif -%}
    {%- set salt = afterimage._erasure_salt() -%}
    {%- set has_hashes = ways | selectattr(0) | list | length > 0 -%}
    {%- if has_hashes and salt is none -%}
        {%- do exceptions.raise_compiler_error(
            name ~ ': ' ~ listed ~ ' has hashes of keys. Set AFTERIMAGE_ERASURE_SALT to the salt that they were made with.'
        ) -%}
    {%- endif -%}
    {%- set salt = salt if has_hashes else none -%}
    {%- set keys -%}
        select
            key_text,
            if(kept is null, null, struct(
                transform(kept.columns, name -> lower(name)) as columns,
                transform_keys(kept.token, (name, value) -> lower(name)) as token
            )) as kept
        from (
            select
                key_text,
                from_json(
                    if(count(kept) = count(*), min_by(kept, struct(requested_at is null, requested_at, kept)), null),
                    'columns array<string>, token map<string, string>'
                ) as kept
            from (
                select
                    if({{ is_hash }}, substring(erased_key, 8), {{ afterimage._key_text(texts, salt) }}) as key_text,
                    kept,
                    requested_at
                from {{ of_model }}
            ) as listed
            group by key_text
        ) as listed_once
    {%- endset -%}
    {%- set token_types, present = {}, {} -%}
    {%- for column, type in types.items() -%}
        {%- do present.update({column | lower: type}) -%}
    {%- endfor -%}
    {%- for kept_types in ways | map(attribute=1) | reject('none') -%}
        {%- for column, type in fromjson(kept_types).items() -%}
            {#- It may have widened since. -#}
            {%- do token_types.update({column | lower: present.get(column | lower, type)}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set columns = [] -%}
    {%- for text in texts -%}
        {%- do columns.append(text ~ ' as _key_' ~ loop.index) -%}
    {%- endfor -%}
    {{ return({
        'keys': keys, 'key_texts': 'select key_text from (' ~ keys ~ ')', 'salt': salt, 'types': types,
        'named': '(select ' ~ columns | join(', ') ~ ' from ' ~ of_model ~ ' and not ' ~ is_hash ~ ') as named_keys',
        'token_types': token_types,
    } if ways else none) }}
{%- endmacro -%}


{#- The rows of the list, with the columns as texts: dbt makes numbers of those that have no value in a seed.
    `named_values` are those of a key that is no hash, by names in lower case. -#}
{%- macro _listed_keys(listed) -%}
    {%- set has_kept = 'kept' in afterimage._relation_columns(listed) | map(attribute='name') -%}
    {%- set key = 'cast(erased_key as string)' -%}
    {{ return(
        '(select cast(model as string) as model, ' ~ key ~ ' as erased_key, requested_at, '
        ~ 'cast(' ~ ('kept' if has_kept else 'null') ~ ' as string) as kept, transform_keys(from_json(' ~ key
        ~ ", 'map<string, string>'), (name, value) -> lower(name)) as named_values from " ~ listed ~ ') as listed_keys'
    ) }}
{%- endmacro -%}


{%- macro _erasure_salt() -%}
    {{ return(env_var('AFTERIMAGE_ERASURE_SALT', '') or none) }}
{%- endmacro -%}


{#- A key as one text: the texts of its columns, in the order of their names, each with its length and a colon before
    it; or the SHA-256 of the salt and that. It is NULL if a column is: such a row has no key. -#}
{%- macro _key_text(texts, salt) -%}
    {%- set parts = [] -%}
    {%- for text in texts -%}
        {%- do parts.append('cast(length(' ~ text ~ ") as string), ':', " ~ text) -%}
    {%- endfor -%}
    {%- set text = 'concat(' ~ parts | join(', ') ~ ')' -%}
    {{ return(text if salt is none else 'sha2(concat(' ~ afterimage._literal(salt) ~ ', ' ~ text ~ '), 256)') }}
{%- endmacro -%}


{#- The same of an image of a change, such as `before`. -#}
{%- macro _key_text_of(image, unique_key, erasures) -%}
    {{ return(afterimage._key_text(
        afterimage._key_column_texts(image, unique_key | sort, erasures.types), erasures.salt
    )) }}
{%- endmacro -%}


{#- The texts of the columns of the key in an image of the staging table. `types` are by name. -#}
{%- macro _key_column_texts(image, unique_key, types) -%}
    {%- set texts = [] -%}
    {%- for column in unique_key -%}
        {%- set type = types.get(column, types.get(column | lower)) -%}
        {%- do texts.append(afterimage._key_column_text(image ~ afterimage._quote(column), type, type)) -%}
    {%- endfor -%}
    {{ return(texts) }}
{%- endmacro -%}


{#- A value of a column of the key, which is of the type `found`, as the text of the key's own type: 42 of an int is
    42.00 of a decimal(10,2). Bytes are hex, as a text of them would be garbled. NULL if it is no value of that type. -#}
{%- macro _key_column_text(value, found, type) -%}
    {%- if type == 'binary' -%}
        {{ return('hex(' ~ (value if found == 'binary' else 'unhex(cast(' ~ value ~ ' as string))') ~ ')') }}
    {%- endif -%}
    {%- for kind in [
        ['tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'decimal'], ['date', 'timestamp', 'timestamp_ntz'],
        ['boolean']
    ] if type and found != type and type.split('(')[0] in kind and found.split('(')[0] in kind + ['string'] -%}
        {%- set is_text = found == 'string' -%}
        {%- set typed = afterimage._cast_text(value, type) if is_text else 'try_cast(' ~ value ~ ' as ' ~ type ~ ')' -%}
        {%- set misfit = afterimage._misfit(value, typed, type) if is_text else typed ~ ' <> ' ~ value -%}
        {{ return('if(' ~ misfit ~ ', null, cast(' ~ typed ~ ' as string))') }}
    {%- endfor -%}
    {{ return('cast(' ~ value ~ ' as string)') }}
{%- endmacro -%}
