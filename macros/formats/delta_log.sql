{#- Landed rows without a change data feed: those of the files that the commits added, as the log lists them. A file
    that was merely rewritten (by OPTIMIZE, or by a DELETE of other rows) counts only if a file that has landed was
    rewritten into it: rows read again without those that were deleted beside them would make less of a change.
    `is_empty` if there is no such file. The table's own statistics let other files be left out, if the order column
    has some. One row is there in any case, with the number of `commits` that the log still has: where it lacks some,
    nobody knows what they added. -#}
{%- macro _rows_by_log(relation, rows, location, commits, column) -%}
    {%- if not commits -%}
        {{ return({'is_empty': true}) }}
    {%- endif -%}
    {%- set columns = afterimage._relation_columns(relation) -%}
    {%- if afterimage._hides_files(columns) -%}
        {{ return({'reason': 'it has a column `_metadata`'}) }}
    {%- elif 'file_name' in columns | map(attribute='name') | map('lower') -%}
        {#- Delta 3.3 takes `_metadata.file_name` for this column, and skips files by its values (delta#5341). -#}
        {{ return({'reason': 'it has a column `file_name`'}) }}
    {%- endif -%}
    {%- set bounded = namespace(name=none, type=none) -%}
    {%- for known in columns
        if column and known.name | lower == column | replace('`', '') | lower
        and modules.re.fullmatch('string|(tiny|small|big)?int|decimal[(][0-9]+,0[)]', known.type) -%}
        {%- set bounded.name = known.name -%}
        {%- set bounded.type = known.type -%}
    {%- endfor -%}
    {%- set deletes = commits | selectattr('operation', 'equalto', 'DELETE') | map(attribute='version') | join(', ') -%}
    {%- set is_delete = 'cast(left(file, 20) as bigint) in (' ~ (deletes or 'null') ~ ')' -%}
    {%- set query -%}
        with

        actions as (

            select
                cast(left(file, 20) as bigint) as version,
                -- A file that gets a deletion vector is added as what it is.
                if({{ is_delete }} and action.`add`.deletionVector is not null, null, action.`add`.path) as added,
                action.`add`.dataChange and not coalesce({{ is_delete }}, false) as is_new,
                action.remove.path as removed,
                {%- for end in ['min', 'max'] %}
                {%- if bounded.name %}
                cast(
                    from_json(
                        action.`add`.stats,
                        {{ afterimage._literal(end ~ 'Values struct<' ~ afterimage._quote(bounded.name) ~ ':string>') }}
                    ).{{ end }}Values.{{ afterimage._quote(bounded.name) }} as {{ bounded.type }}
                ) as {{ end }}_value,
                {%- else %}
                cast(null as string) as {{ end }}_value,
                {%- endif %}
                {%- endfor %}
                action.commitInfo is not null as is_commit

            from (
                select
                    _metadata.file_name as file,
                    from_json(
                        value,
                        'add struct<path:string,dataChange:boolean,stats:string,'
                        || 'deletionVector:struct<storageType:string>>, remove struct<path:string>,'
                        || ' commitInfo struct<operation:string>'
                    ) as action

                from text.`{{ location | replace('`', '``') }}/_delta_log/*.json`
                where
                    _metadata.file_name between '{{ '%020d' % (commits[-1]['version'] | int) }}'
                    and '{{ '%020d' % (commits[0]['version'] | int) }}.json'
                    and length(_metadata.file_name) = 25
            ) as logged

        ),

        -- Commits that rewrote a file which an earlier one of these commits added.
        rewriting as (

            select sort_array(collect_set(struct(rewritten.version as version, added.version as origin))) as steps
            from actions as rewritten
            inner join actions as added
                on rewritten.removed = added.added and added.version < rewritten.version

        ),

        -- Those that added rows, and those that rewrote what came from them, from the oldest on.
        landing as (

            select explode(aggregate(
                steps,
                (select collect_set(version) from actions where is_new),
                (landed, step) -> if(
                    array_contains(landed, step.origin), array_append(landed, step.version), landed
                )
            )) as version

            from rewriting

        )

        select
            regexp_extract(added, '[^/]*$', 0) as file,
            cast(min(min_value) over () as string) as first_value,
            cast(max(max_value) over () as string) as last_value,
            count_if(min_value is null or max_value is null) over () = 0 as is_bounded,
            seen.commits

        from (
            select *
            from actions
            where added is not null and version in (select version from landing)
        ) as landed
        right outer join (select count(distinct version) as commits from actions where is_commit) as seen
            on true
        limit 501
    {%- endset -%}
    {%- set found = run_query(query).rows -%}
    {%- set files = found | rejectattr('file', 'none') | list -%}
    {%- if found[0]['commits'] | int < commits | length -%}
        {{ return({'reason': 'its log no longer holds all commits since'}) }}
    {%- elif not files -%}
        {{ return({'is_empty': true}) }}
    {%- elif files | length > 500 and not files[0]['is_bounded'] -%}
        {{ return({'reason': 'too many files have landed'}) }}
    {%- endif -%}
    {%- set conditions = [] -%}
    {%- if files | length <= 500 -%}
        {%- do conditions.append(
            'landed_files._metadata.file_name in (' ~ afterimage._each(files | map(attribute='file'), '{name}') | join(', ') ~ ')'
        ) -%}
    {%- endif -%}
    {%- if files[0]['is_bounded'] -%}
        {%- do conditions.append(
            afterimage._within_bounds(afterimage._quote(bounded.name), files[0]['first_value'], files[0]['last_value'])
        ) -%}
    {%- endif -%}
    {#- The alias is needed: within a subquery Spark takes a bare `_metadata` for that of the outer query. -#}
    {{ return({
        'landed': '(select * from ' ~ rows ~ ' as landed_files where ' ~ conditions | join(' and ') ~ ')'
    }) }}
{%- endmacro -%}
