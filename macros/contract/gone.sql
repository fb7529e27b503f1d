{#- What a staging table has lost though histories and audits have taken it in. They read what is new: that a change is
    gone, nothing tells them. -#}


{#- The version of the staging table that a full refresh is about to replace, or that was rolled back. None, if there is
    none, or no history or audit to tell of it. -#}
{%- macro _version_left(target_relation, existing_relation, intakes) -%}
    {%- set is_replaced = existing_relation is not none and not afterimage._is_incremental() -%}
    {%- set is_rolled_back =
        (this ~ ' was rolled back') in afterimage._tables_read(intakes) | map(attribute='reason') | list
    -%}
    {%- if not (is_replaced or is_rolled_back) or not afterimage._tracks_reads() or not afterimage._kept_below() -%}
        {{ return(none) }}
    {%- elif is_rolled_back -%}
        {{ return(afterimage._table_properties(target_relation).get('afterimage.snapshot')) }}
    {%- elif existing_relation.type == 'table'
        and afterimage._landing_format(existing_relation) == afterimage._model_format() -%}
        {{ return(afterimage._version(existing_relation)) }}
    {%- endif -%}
{%- endmacro -%}


{#- The histories and audits below the model that are there, and that this run does not build again. -#}
{%- macro _kept_below() -%}
    {%- set kept = [] -%}
    {%- for node in graph.nodes.values() if node.config.materialized in ['history', 'audit'] -%}
        {%- set is_refreshed = flags.FULL_REFRESH if node.config.full_refresh is none else node.config.full_refresh -%}
        {%- if not (is_refreshed and node.unique_id in selected_resources)
            and afterimage._is_above(model.unique_id, node)
            and afterimage._load_relation(afterimage._relation_of_node(node)) is not none -%}
            {%- do kept.append(node.name) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(kept | sort) }}
{%- endmacro -%}


{#- Warns if good changes of an earlier version are gone. It is no error: the user knows which changes are right. If
    the raw table was pruned, that version is the only table that has them. Those whose key was erased since are there,
    by another id. -#}
{%- macro _check_none_is_gone(target_relation, earlier) -%}
    {%- set query -%}
        select count(*)
        from {{ target_relation }} version as of {{ earlier }} as earlier
        left anti join {{ target_relation }} as present
            on earlier.change_id = present.change_id
        left anti join (
            select change_id from {{ target_relation }} where startswith(change_id, 'erased-')
        ) as erased
            on concat('erased-', md5(earlier.change_id)) = erased.change_id
        where earlier.reject_reason is null
    {%- endset -%}
    {%- set gone = afterimage._value(query) if earlier else 0 -%}
    {%- if gone | int > 0 -%}
        {%- do exceptions.warn(
            'change_stream ' ~ model.name ~ ': ' ~ gone ~ ' changes that ' ~ target_relation ~ ' had are gone, and what'
            ~ ' came of them stays in ' ~ afterimage._kept_below() | join(', ') ~ '. If they were wrong, run `dbt run'
            ~ ' --full-refresh --select ' ~ model.name ~ '+`. If the raw table was only pruned, go back to version '
            ~ earlier ~ ' of the table before the next run: audits and some histories stop without these changes.'
        ) -%}
    {%- endif -%}
{%- endmacro -%}
