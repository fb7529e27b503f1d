{#- Keys that were erased stay erased. Whatever lands again of them, and in a full refresh too, a change of such a key
    keeps its place in the stream, so that every landed row is accounted for. It loses its values, and is rejected. If the
    intervals of the key are kept, it is not rejected: it has a token in place of the key, and the values of a few columns.
    If it gave a row of another key an erased one, it is a delete at that other key, which is not erased. -#}


{#- The CTE `kept_changes` of the CTE `changes`: the same changes, of which those of erased keys (`is_erased`) have
    lost their values. Some change_ids hold the key, so such a change gets one of its own, the same whenever it is
    read; `id_before` is the one that it had. `erased_columns`: see _intake; `carried`: see _known_rules.

    A change that was erased may come again without its key, if the rows that have it are gone, or without the one of
    its two keys that was erased. It is known by its id in the table `known`, where one with tokens stays as it is. So it
    stays (`keeps_token`) if its key was erased as a whole since: else a history would lose sight of the token, and keep
    it. -#}
{%- macro _without_erased(erasures, columns, unique_key, further_columns, erased_columns, carried, known=none) -%}
{%- set key_before = afterimage._key_text_of('changes.`before`.', unique_key, erasures) -%}
{%- set key_after = afterimage._key_text_of('changes.`after`.', unique_key, erasures) -%}
{%- set has_no_key = 'coalesce(' ~ key_before ~ ', ' ~ key_after ~ ') is null' -%}
{#- What is held back counts later. It must be found then. -#}
{%- set counts = "(changes.reject_reason is null or startswith(changes.reject_reason, 'held back:'))" -%}
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
        {%- if known %}
        is_erased
        and has_token
        and not (keeps_interval or leaves_other_key or (ends_interval and token_ended)) as keeps_token,
        {%- endif %}
        change_id as id_before

    from (
        select
            changes.*,
            of_before.key_text is not null
            or of_after.key_text is not null
            {%- if known %}
            or coalesce({{ key_before }} is null and earlier.change_id is not null, false)
            {%- endif %} as is_erased,
            coalesce(
                changes.operation = 'update'
                and {{ counts }}
                and of_after.key_text is not null
                and of_before.key_text is null
                and {{ key_before }} is not null,
                false
            ) as leaves_other_key,
            {%- if erasures.token_types %}
            {{ counts }}
            and (changes.`before` is null or of_before.kept is not null)
            and (changes.`after` is null or of_after.kept is not null) as keeps_interval,
            -- Else the last version of the token would be open for ever.
            coalesce(
                changes.operation = 'update'
                and {{ counts }}
                and of_before.kept is not null
                and of_after.kept is null
                and {{ key_after }} is not null,
                false
            ) as ends_interval,
            of_before.kept as kept_before,
            of_after.kept as kept_after,
            {%- else %}
            false as keeps_interval,
            false as ends_interval,
            {%- endif %}
            {%- if known %}
            coalesce(
                earlier.reject_reason is null
                and not coalesce(earlier.key_before = {{ key_before }}, false)
                and not coalesce(earlier.key_after = {{ key_after }}, false)
                and earlier.change_id is not null,
                false
            ) as has_token,
            earlier.has_ended as token_ended,
            {%- endif %}
            of_after.key_text as of_after_key

        from changes
        {%- for image in ['before', 'after'] %}
        left outer join ({{ erasures['keys'] }}) as of_{{ image }}
            on
                of_{{ image }}.key_text
                = {{ key_before if image == 'before' else key_after }}
        {%- endfor %}
        {%- if known %}
        left outer join (
            select
                change_id,
                reject_reason,
                `after` is null as has_ended,
                {{ afterimage._key_text_of('`before`.', unique_key, erasures) }} as key_before,
                {{ afterimage._key_text_of('`after`.', unique_key, erasures) }} as key_after

            from {{ known }}
            where startswith(change_id, 'erased-')
        ) as earlier
            on earlier.change_id = concat('erased-', md5(changes.change_id))
        where not ({{ has_no_key }} and earlier.change_id is not null and earlier.reject_reason is null)
        {%- endif %}
    ) as marked_changes

)
{%- endmacro -%}


{#- An image of a key whose intervals are kept. A column of the key may be among those that stay. -#}
{%- macro _image_with_token(image, columns, token_types) -%}
    {%- set fields = [] -%}
    {%- for column in columns -%}
        {#- The table may have been created again with other capitals. -#}
        {%- set name = afterimage._literal(column | lower) -%}
        {%- set kept = 'array_contains(kept_' ~ image ~ '.columns, ' ~ name ~ ')' -%}
        {%- set other = 'cast(kept_' ~ image ~ '.token[' ~ name ~ '] as ' ~ token_types[column | lower] ~ ')'
            if column | lower in token_types else 'null' -%}
        {%- do fields.extend(afterimage._each(
            [column], '{name}, if(' ~ kept ~ ', `' ~ image ~ '`.{column}, ' ~ other ~ ')'
        )) -%}
    {%- endfor -%}
named_struct(
    {{ fields | join(',\n') | indent(4) }}
)
{%- endmacro -%}
