{#- Keys that were erased stay erased. Whatever lands again of them, and in a full refresh too, a change of such a key
    keeps its place in the stream, so that every landed row is accounted for. It loses its values, and is rejected. If the
    intervals of the key are kept, it is not rejected: it has a token in place of the key, and the values of a few columns.
    If it gave a row of another key an erased one, it is a delete at that other key, which is not erased.

    The list of erasures has the columns `model`, `erased_key` (`{"id": "42"}`, or `sha256:` and a hash, see `_key_text`),
    `requested_at`, `reference`, and `kept`, which it may lack: NULL, or, if intervals are kept, the names of the `columns`
    that stay and the `token` and the `types` of the key's columns, as JSON. -#}


{#- It is the table that the var `afterimage_erasures` names (schema.table), or `afterimage_erasures` in the target's
    schema: a seed, a table of anyone's, or what `erase` makes. -#}
{%- macro _erasures_table() -%}
    {%- set named = (var('afterimage_erasures', none) or 'afterimage_erasures').split('.') -%}
    {{ return(api.Relation.create(
        schema=named[:-1] | join('.') or target.schema, identifier=named[-1], type='table'
    )) }}
{%- endmacro -%}


{#- What was erased of a model, none if nothing was:
    - `keys`: a query for the texts of its keys (`key_text`, see `_key_text`), with what is `kept`; `key_texts`: one for
      the texts alone; `named`: those that are no hashes, with the columns of `_key_names`,
    - `salt`: what is hashed with the keys; none if the list has them as they are,
    - `types`: as given,
    - `token_types`: the types of the key's columns that have tokens, if the intervals of some keys are kept.
    `types` are those of the columns, by name. `listed` is the list, if it is known to exist. -#}
{%- macro _erasures_of(name, unique_key, types, listed=none) -%}
    {%- set listed = listed or afterimage._load_relation(afterimage._erasures_table()) -%}
    {%- if listed is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set has_kept = 'kept' in afterimage._relation_columns(listed) | map(attribute='name') -%}
    {%- set kept = 'kept' if has_kept else 'cast(null as string)' -%}
    {%- set of_model = listed ~ ' where model = ' ~ afterimage._literal(name) -%}
    {%- set is_hash = "coalesce(startswith(erased_key, 'sha256:'), false)" -%}
    {%- set named = "transform_keys(from_json(erased_key, 'map<string, string>'), (name, value) -> lower(name))" -%}
    {%- set of_model = '(select *, ' ~ named ~ ' as named_values from ' ~ of_model ~ ') as of_model' -%}
    {#- Somebody may have listed 042 for the number 42. -#}
    {%- set texts = [] -%}
    {%- for column in unique_key | sort -%}
        {%- do texts.append(afterimage._key_column_text(
            'named_values[' ~ afterimage._literal(column | lower) ~ ']', 'string', types.get(column, types.get(column | lower))
        )) -%}
    {%- endfor -%}
    {%- set ways = run_query(
        'select ' ~ is_hash ~ ', get_json_object(' ~ kept ~ ", '$.types'), count(*) - count(if(" ~ is_hash ~ ", '', "
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
            if(count(kept) = count(*), min_by(kept, struct(requested_at is null, requested_at, kept)), null) as kept
        from (
            select
                if({{ is_hash }}, substring(erased_key, 8), {{ afterimage._key_text(texts, salt) }}) as key_text,
                {{ kept }} as kept,
                requested_at
            from {{ of_model }}
        ) as listed
        group by key_text
    {%- endset -%}
    {%- set token_types = {} -%}
    {%- for kept_types in ways | map(attribute=1) | reject('none') -%}
        {%- for column, type in fromjson(kept_types).items() -%}
            {#- It may have widened since. -#}
            {%- do token_types.update({column: types.get(column, types.get(column | lower, type))}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set columns = [] -%}
    {%- for text in texts -%}
        {%- do columns.append(text ~ ' as _key_' ~ loop.index) -%}
    {%- endfor -%}
    {{ return({
        'keys': keys, 'key_texts': 'select key_text from (' ~ keys ~ ')', 'salt': salt, 'types': types,
        'named': '(select ' ~ columns | join(', ') ~ ' from ' ~ of_model ~ ' where not ' ~ is_hash ~ ') as named_keys',
        'token_types': token_types,
    } if ways else none) }}
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


{#- The CTE `kept_changes` of the CTE `changes`: the same changes, of which those of erased keys (`is_erased`) have
    lost their values. Some change_ids hold the key, so such a change gets one of its own, the same whenever it is
    read; `id_before` is the one that it had. `erased_columns`: see _intake; `carried`: see _known_rules.

    A change that was erased may come again without its key, if the rows that have it are gone. It is known by its id in
    the table `known`, where one with tokens stays as it is. -#}
{%- macro _without_erased(erasures, columns, unique_key, further_columns, erased_columns, carried, known=none) -%}
{%- set key_before = afterimage._key_text_of('changes.`before`.', unique_key, erasures) -%}
{%- set key_after = afterimage._key_text_of('changes.`after`.', unique_key, erasures) -%}
{%- set has_no_key = 'coalesce(' ~ key_before ~ ', ' ~ key_after ~ ') is null' -%}
{#- The other key of such a delete may be erased later. -#}
{%- set values = {
    'change_id': "if(startswith(change_id, 'erased-'), change_id, concat('erased-', md5(change_id)))",
    'operation': "if(leaves_other_key or ends_interval, 'delete', operation)",
    'warnings': "case when leaves_other_key then array('the row took a key that is erased: erase this one too') "
        ~ "when ends_interval and of_after_key is null then array('the row went on to a key that is not erased: erase that "
        ~ "one too') end",
} -%}
{%- for column in ['changed_by'] + further_columns -%}
    {%- do values.update({column: erased_columns.get(column, 'null')}) -%}
{%- endfor -%}
{%- set values_if_rejected = {
    'before': 'null', 'after': 'null', 'changed_columns': 'null', 'absent_columns': 'null', 'reject_reason': "'erased'"
} -%}
kept_changes as (

    select
        {%- for column in afterimage._contract_columns() + further_columns %}
        {%- set name = afterimage._quote(column) %}
        {%- if column in values %}
        if(is_erased, {{ values[column] }}, {{ name }}) as {{ name }},
        {%- elif column in values_if_rejected %}
        case
            {%- if column in ['before', 'reject_reason'] %}
            when leaves_other_key then {{ name }}
            {%- endif %}
            when is_erased and not {{ 'keeps_interval' if column not in ['before', 'reject_reason'] else '(keeps_interval or ends_interval)' }}
                then {{ values_if_rejected[column] }}
            {%- if erasures.token_types and column in ['before', 'after'] %}
            when is_erased and {{ name }} is not null
                then {{ afterimage._image_with_token(column, columns, erasures.token_types) | indent(20) }}
            {%- endif %}
            else {{ name }}
        end as {{ name }},
        {%- else %}
        {{ name }},
        {%- endif %}
        {%- endfor %}
        {%- for column in carried %}
        {{ column }},
        {%- endfor %}
        is_erased,
        change_id as id_before

    from (
        select
            changes.*,
            of_before.key_text is not null
            or of_after.key_text is not null
            {%- if known %}
            or coalesce({{ has_no_key }} and earlier.reject_reason = 'erased', false)
            {%- endif %} as is_erased,
            coalesce(
                changes.operation = 'update'
                and changes.reject_reason is null
                and of_after.key_text is not null
                and of_before.key_text is null
                and {{ key_before }} is not null,
                false
            ) as leaves_other_key,
            {%- if erasures.token_types %}
            changes.reject_reason is null
            and (changes.`before` is null or of_before.kept is not null)
            and (changes.`after` is null or of_after.kept is not null) as keeps_interval,
            -- Else the last version of the token would be open for ever.
            coalesce(
                changes.operation = 'update'
                and changes.reject_reason is null
                and of_before.kept is not null
                and of_after.kept is null
                and {{ key_after }} is not null,
                false
            ) as ends_interval,
            {%- for image in ['before', 'after'] %}
            from_json(
                of_{{ image }}.kept, 'columns array<string>, token map<string, string>'
            ) as kept_{{ image }}{{ ',' if not loop.last }}
            {%- endfor %}
            {%- else %}
            false as keeps_interval,
            false as ends_interval
            {%- endif %},
            of_after.key_text as of_after_key

        from changes
        {%- for image in ['before', 'after'] %}
        left outer join ({{ erasures['keys'] }}) as of_{{ image }}
            on
                of_{{ image }}.key_text
                = {{ key_before if image == 'before' else key_after }}
        {%- endfor %}
        {%- if known %}
        left outer join (select change_id, reject_reason from {{ known }} where startswith(change_id, 'erased-')) as earlier
            on earlier.change_id = concat('erased-', md5(changes.change_id))
        where not ({{ has_no_key }} and earlier.change_id is not null and earlier.reject_reason is null)
        {%- endif %}
    ) as marked_changes

)
{%- endmacro -%}
