{#- How keys come on the list of erasures (macros/contract/erasures.sql), and what stays of them. -#}


{#- Adds the keys to the list of erasures that are not in it. Where there is a salt, it gets hashes. A seed has them all
    (see _earlier_erasures), and the types of its columns may be others. -#}
{%- macro _list_erasures(plan, reference) -%}
    {%- set list = afterimage._erasures_table() -%}
    {#- dbt makes the schemas of the models that it runs, and no others. -#}
    {%- if afterimage._load_relation(list) is none and not adapter.check_schema_exists(list.database, list.schema) -%}
        {%- do run_query('create schema if not exists ' ~ list.include(identifier=false)) -%}
    {%- endif -%}
    {%- do run_query(
        'create table if not exists ' ~ list ~ ' (model string, erased_key string, requested_at timestamp,'
        ~ ' reference string, kept string) using ' ~ plan.stream.format
    ) -%}
    {#- A list of the user's own may lack it. -#}
    {%- set has_kept = 'kept' in afterimage._relation_columns(list) | map(attribute='name') -%}
    {%- if plan.kept is not none and not has_kept -%}
        {%- do run_query('alter table ' ~ list ~ ' add columns (kept string)') -%}
    {%- endif -%}
    {%- set kept = 'cast(null as string)' if plan.kept is none else afterimage._what_is_kept(plan) -%}
    {%- set salt = afterimage._erasure_salt() -%}
    {%- set earlier = afterimage._earlier_erasures(plan, list) -%}
    {%- set keys = afterimage._inline_keys(plan.texts) if plan.kept is none
        else afterimage._keys_with_tokens(plan, earlier) -%}
    {%- set hashed = afterimage._key_text(afterimage._each(plan.unique_key, '{key}'), salt) -%}
    {%- set as_json -%}
        to_json(map({{ afterimage._each(plan.unique_key, '{name}, {key}') | join(', ') }}))
    {%- endset -%}
    {%- set statement -%}
        insert into {{ list }} (
            model, erased_key, requested_at, reference{{ ', kept' if has_kept or plan.kept is not none }}
        )
        select
            {{ afterimage._literal(plan.staging) }},
            {{ as_json if salt is none else "concat('sha256:', " ~ hashed ~ ')' }},
            current_timestamp(),
            {{ 'cast(null as string)' if reference is none else afterimage._literal(reference | string) }}
            {{- ', ' ~ kept if has_kept or plan.kept is not none }}
        from {{ keys }}
        {%- if earlier %}
        where
            {{ afterimage._key_text(afterimage._each(plan.unique_key, '{key}'), earlier.salt) }}
            not in {{ earlier.listed }}
        {%- endif %}
    {%- endset -%}
    {%- do run_query(statement) if not afterimage._erasures_seed() -%}
{%- endmacro -%}


{#- What the list has of the model, and `listed`: the texts of keys that need not be added. A key whose intervals were
    kept may be erased as a whole later, if it is given, not the other way round. A seed would lose what is added to its
    table. -#}
{%- macro _earlier_erasures(plan, list) -%}
    {%- set earlier = afterimage._erasures_of(plan.staging, plan.unique_key, plan.key_types, list) -%}
    {%- set keys = afterimage._each(plan.unique_key, '{key}') -%}
    {%- set known = 'select ' ~ afterimage._key_text(keys, earlier.salt if earlier else none) ~ ' as key_text from '
        ~ afterimage._inline_keys(plan.texts) -%}
    {%- set is_whole = '(' ~ earlier.key_texts ~ ' where kept is null)' if earlier -%}
    {#- With --listed, the list says what is kept. -#}
    {%- set asks_for_whole = plan.kept is none and not plan.erasures -%}
    {%- set listed = is_whole if asks_for_whole else '(' ~ earlier.key_texts ~ ')' if earlier -%}
    {%- if earlier and plan.kept is not none
        and afterimage._value('select count(*) from (' ~ known ~ ') where key_text in ' ~ is_whole) | int -%}
        {%- do exceptions.raise_compiler_error(
            'erase: `keep_intervals` must not be given for keys that ' ~ list ~ ' has without it. Delete them there first.'
            ~ ' Got: ' ~ plan.kept
        ) -%}
    {%- endif -%}
    {%- set seed = afterimage._erasures_seed() -%}
    {%- if seed -%}
        {%- set is_new = ' where key_text not in ' ~ listed if earlier else '' -%}
        {%- if afterimage._value('select count(*) from (' ~ known ~ ')' ~ is_new) | int -%}
            {%- do exceptions.raise_compiler_error(
                'erase: ' ~ list ~ ' is the seed ' ~ seed.name ~ '. Add the keys there, run `dbt seed`, and erase what is'
                ~ ' listed.'
            ) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(dict(earlier, listed=listed) if earlier else none) }}
{%- endmacro -%}


{#- The columns that stay where intervals are kept, as the table spells them; none if no intervals are kept. -#}
{%- macro _kept_columns(keep_intervals, columns) -%}
    {%- do afterimage._check_names('erase', 'keep_intervals', keep_intervals) -%}
    {%- do afterimage._check_known('erase', 'keep_intervals', keep_intervals, columns) -%}
    {{ return(none if keep_intervals is none else afterimage._in_column_order(keep_intervals, columns)) }}
{%- endmacro -%}


{#- The types of the columns of the key that a token stands for, none if no intervals are kept. -#}
{%- macro _token_types(kept, unique_key, types) -%}
    {%- if kept is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set chosen = {} -%}
    {%- for column in unique_key if column not in kept -%}
        {%- if types[column] != 'string' and not afterimage._most_tokens(types[column]) -%}
            {%- do exceptions.raise_compiler_error(
                'erase: `keep_intervals` must have the column ' ~ column ~ ' of the key, as a token is a text or a whole'
                ~ ' number, and the column is ' ~ types[column] ~ '. Got: ' ~ kept
            ) -%}
        {%- endif -%}
        {%- do chosen.update({column: types[column]}) -%}
    {%- endfor -%}
    {%- if not chosen -%}
        {%- do exceptions.raise_compiler_error(
            'erase: `keep_intervals` must not have all columns of the key. Got: ' ~ kept
        ) -%}
    {%- endif -%}
    {{ return(chosen) }}
{%- endmacro -%}


{#- What the list notes of a key whose intervals are kept. -#}
{%- macro _what_is_kept(plan) -%}
    {%- set tokens = [] -%}
    {%- set types = [] -%}
    {%- for column, type in plan.token_types.items() -%}
        {%- set name = afterimage._literal(column) ~ ', ' -%}
        {%- do types.append(name ~ afterimage._literal(type)) -%}
        {%- do tokens.append(name ~ 'cast(_token_' ~ loop.index ~ ' as string)') -%}
    {%- endfor -%}
    {{ return(
        "to_json(named_struct('columns', " ~ afterimage._string_array(plan.kept) ~ ", 'token', map(" ~ tokens | join(', ')
        ~ "), 'types', map(" ~ types | join(', ') ~ ')))'
    ) }}
{%- endmacro -%}


{#- The keys of the plan, as a table with the columns of `_key_names` and of tokens, `_token_1` and so on. Tokens are
    random: nobody can compute one from its key. Two keys with one token would become one history. So what was drawn
    before, or is a key of any row, is left out, and more are drawn than there are keys. -#}
{%- macro _keys_with_tokens(plan, earlier) -%}
    {%- set tokens, draws, keys_taken = [], [], [] -%}
    {%- for type in plan.token_types.values() -%}
        {%- do tokens.append('_token_' ~ loop.index) -%}
        {%- do draws.append(
            "concat('erased-', uuid())" if type == 'string'
            else '-1 - cast(rand() * ' ~ afterimage._most_tokens(type) ~ ' as bigint)'
        ) -%}
    {%- endfor -%}
    {#- No UUID comes twice. -#}
    {%- for image in plan.stream.images if 'string' not in plan.token_types.values() -%}
        {%- do keys_taken.append('select ' ~ afterimage._each(
            plan.token_types, 'try_cast(' ~ image ~ '{column} as bigint)'
        ) | join(', ') ~ ' from ' ~ plan.stream.relation) -%}
    {%- endfor -%}
    {%- if keys_taken and earlier -%}
        {%- do keys_taken.append('select ' ~ afterimage._each(
            plan.token_types | map('lower'), 'try_cast(kept.token[{name}] as bigint)'
        ) | join(', ') ~ ' from (' ~ earlier['keys'] ~ ')') -%}
    {%- endif -%}
(
    select *
    from (
        select *, row_number() over (order by {{ afterimage._each(plan.unique_key, '{key}') | join(', ') }}) as place
        from {{ afterimage._inline_keys(plan.texts) }}
    ) as numbered_keys
    inner join (
        select {{ tokens | join(', ') }}, row_number() over (order by min(draw)) as place
        from (
            select id as draw
                {%- for draw in draws %}, {{ draw }} as {{ tokens[loop.index0] }}{% endfor %}
            from range({{ 10 * plan.texts | length + 1000 }})
        ) as drawn
        {%- if keys_taken %}
        left anti join (
            {{ keys_taken | join(' union all ') }}
        ) as keys_taken ({{ tokens | join(', ') }})
            using ({{ tokens | join(', ') }})
        {%- endif %}
        group by {{ tokens | join(', ') }}
    ) as free_tokens
        using (place)
) as keys_with_tokens
{%- endmacro -%}


{#- How many negative numbers of a type can stand for keys; none if none can. -#}
{%- macro _most_tokens(type) -%}
    {%- set whole = modules.re.fullmatch('decimal\\((\\d+),(\\d+)\\)', type | replace(' ', '')) -%}
    {%- if whole and whole.group(1) | int - whole.group(2) | int >= 9 -%}
        {{ return('1e' ~ [whole.group(1) | int - whole.group(2) | int, 15] | min) }}
    {%- endif -%}
    {{ return({'int': '2147483647', 'bigint': '9e15'}.get(type)) }}
{%- endmacro -%}
