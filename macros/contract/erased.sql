{#- Keys that were erased stay erased. Whatever lands again of them, and in a full refresh too, a change of such a key
    keeps its place in the stream, so that every landed row is accounted for, and loses its values. -#}


{#- The list of erasures, if there is one. -#}
{%- macro _erasures() -%}
    {{ return(afterimage._load_relation(afterimage._erasures_table())) }}
{%- endmacro -%}


{#- It is the table that the var `afterimage_erasures` names (schema.table), or `afterimage_erasures` in the target's
    schema: a seed, a table of anyone's, or what `erase` makes. -#}
{%- macro _erasures_table() -%}
    {%- set named = (var('afterimage_erasures', none) or 'afterimage_erasures').split('.') -%}
    {{ return(api.Relation.create(
        schema=named[:-1] | join('.') or target.schema, identifier=named[-1], type='table'
    )) }}
{%- endmacro -%}


{#- A query for the erased keys of a staging model, as texts in the columns of `_key_names`. -#}
{%- macro _erased_keys(erasures, name, unique_key) -%}
    {{ return(
        'select distinct '
        ~ afterimage._each(unique_key, "from_json(erased_key, 'map<string, string>')[{name}] as {key}") | join(', ')
        ~ ' from ' ~ erasures ~ ' where model = ' ~ afterimage._literal(name)
    ) }}
{%- endmacro -%}


{#- The condition that an image is of an erased key. -#}
{%- macro _is_of_key(image, unique_key, keys) -%}
    {{ return(
        afterimage._each(unique_key, 'cast(' ~ image ~ '{column} as string) = ' ~ keys ~ '.{key}') | join(' and ')
    ) }}
{%- endmacro -%}


{#- What a change of an erased key has in place of its values. Some change_ids hold the key, so it gets one of its
    own, which is the same whenever the change is read. -#}
{%- macro _erased_values(change_id='change_id') -%}
    {{ return({
        'change_id': "concat('erased-', md5(" ~ change_id ~ '))',
        'before': 'null', 'after': 'null', 'changed_columns': 'null', 'absent_columns': 'null', 'warnings': 'null',
        'changed_by': 'null', 'reject_reason': "'erased'",
    }) }}
{%- endmacro -%}


{#- The CTE `kept_changes` behind `changes`, if keys of the model were erased. -#}
{%- macro _without_erased(erasures, unique_key, further_columns) -%}
{%- set keys = afterimage._erased_keys(erasures, model.name, unique_key) -%}
{%- set values = dict(afterimage._erased_values()) -%}
{%- for column in further_columns -%}
    {%- do values.update({column: 'null'}) -%}
{%- endfor -%}
,

kept_changes as (

    select
        {%- for column in afterimage._contract_columns() + further_columns %}
        {%- set name = afterimage._quote(column) %}
        {%- if column in values %}
        if(is_erased, {{ values[column] }}, {{ name }}) as {{ name }}
        {%- else %}
        {{ name }}
        {%- endif %}
        {{- ',' if not loop.last }}
        {%- endfor %}

    from (
        select
            changes.*,
            of_before.is_erased is not null or of_after.is_erased is not null as is_erased

        from changes
        {%- for image in ['before', 'after'] %}
        left outer join (select *, true as is_erased from ({{ keys }}) as erased_keys) as of_{{ image }}
            on {{ afterimage._is_of_key('changes.`' ~ image ~ '`.', unique_key, 'of_' ~ image) }}
        {%- endfor %}
    ) as marked_changes

)
{%- endmacro -%}
