{#- The versions of a history as a relation, each with the names of the rules that it breaks in
    `afterimage_broken_rules`. The generic tests of histories select from it. -#}
{%- macro _versions_by_rules(test_name, history, unique_key, meta_column_names) -%}
    {%- do afterimage._check_names(test_name, 'unique_key', unique_key, required=true) -%}
    {%- set meta = afterimage._columns_of_history(test_name, history, meta_column_names) -%}
    {%- set keys = afterimage._quoted_list(unique_key) -%}
    {%- set in_order -%}
partition by {{ keys }} order by {{ meta.version }}, {{ meta.history_id }}
    {%- endset -%}
(
    select
        *,
        array_compact(array(
            if(
                {{ meta.valid_to }} < {{ meta.valid_from }}
                or {{ meta.valid_to_seq }} < {{ meta.valid_from_seq }}
                or (afterimage_next_from is not null and coalesce({{ meta.valid_to }} > afterimage_next_from, true))
                or (afterimage_next_seq is not null and coalesce({{ meta.valid_to_seq }} > afterimage_next_seq, true)),
                'history_has_no_overlaps',
                null
            ),
            if(
                afterimage_current_versions > 1 or {{ meta.is_current }} <> ({{ meta.valid_to_seq }} is null),
                'one_current_version_per_key',
                null
            ),
            if(
                {{ meta.version }} <> afterimage_place
                or ({{ meta.closed_by }} is null) <> ({{ meta.valid_to_seq }} is null)
                or {{ meta.closed_by }} not in ('update', 'delete', 'truncate', 'key_change')
                or (
                    afterimage_place > 1
                    and case
                        when afterimage_last_cause = 'update'
                            then not (
                                afterimage_last_to <=> {{ meta.valid_from }}
                                and afterimage_last_seq <=> {{ meta.valid_from_seq }}
                            )
                        else coalesce(
                            afterimage_last_to > {{ meta.valid_from }}
                            or afterimage_last_seq > {{ meta.valid_from_seq }},
                            true
                        )
                    end
                ),
                'versions_chain',
                null
            ),
            if({{ meta.history_id }} is null or afterimage_copies > 1, 'history_id_is_unique', null)
        )) as afterimage_broken_rules

    from (
        select
            *,
            lead({{ meta.valid_from }}) over ({{ in_order }}) as afterimage_next_from,
            lead({{ meta.valid_from_seq }}) over ({{ in_order }}) as afterimage_next_seq,
            lag({{ meta.valid_to }}) over ({{ in_order }}) as afterimage_last_to,
            lag({{ meta.valid_to_seq }}) over ({{ in_order }}) as afterimage_last_seq,
            lag({{ meta.closed_by }}) over ({{ in_order }}) as afterimage_last_cause,
            row_number() over ({{ in_order }}) as afterimage_place,
            count_if({{ meta.is_current }}) over (partition by {{ keys }}) as afterimage_current_versions,
            count(*) over (partition by {{ meta.history_id }}) as afterimage_copies

        from {{ history }}
    ) as neighbours
) as versions
{%- endmacro -%}
