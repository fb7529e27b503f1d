{#- What an incremental run compares: each landed copy with the one before it, and the copy after it again, because a
    different copy is before it now.
    - `compared`: their places; `read`: theirs and those of the copies before them,
    - `gone`: those that the raw table no longer has. The staging table says what they held, but nobody what they held
      in new columns (`has_added`),
    - `revised`: the places whose earlier changes are superseded, unless they are made again: those that are compared,
      and those of copies that were taken out of the raw table,
    - `condition`: which landed rows to read,
    - `known_within`: a condition on `known`, the rows of the model's table, that holds for every row of these copies. -#}
{%- macro _copies_plan(macro_name, intake, date_type, unique_key) -%}
    {%- set side = intake.sides[0] -%}
    {#- All changes of a copy that was taken out are superseded. -#}
    {%- set known = run_query(
        'select distinct ' ~ afterimage._copies_place_of_change() ~ ' from ' ~ this ~ " as known where (change_id like"
        ~ " '____-__-__ %' or (startswith(change_id, 'erased-') and changed_at is not null))"
        ~ " and coalesce(reject_reason, '') not like 'superseded:%'"
    ).columns[0].values() | list -%}
    {%- set landed = intake.extents | map('first') | list if intake.kind == 'new'
        else afterimage._copies_sizes(side.rows, side.place, 'true', ['1']).keys() | list -%}
    {%- set candidates = afterimage._copies_beside(known, landed, behind=landed) -%}
    {#- Not every format tells that rows of a copy are gone. What it says now is compared with the next copy. -#}
    {%- set thinned = afterimage._copies_thinned(side, candidates.read | reject('in', landed) | list) -%}
    {%- if thinned -%}
        {#- What took rows out of one copy may have taken them out of others. -#}
        {%- set landed = landed + afterimage._copies_thinned(side, known | reject('in', landed) | list) -%}
        {%- set candidates = afterimage._copies_beside(known, landed, behind=landed) -%}
    {%- endif -%}
    {%- set condition = afterimage._copies_condition(side, candidates.read, date_type) -%}
    {%- set sizes = afterimage._copies_sizes(side.rows, side.place, condition, afterimage._quoted(unique_key)) -%}
    {%- set taken_out = afterimage._copies_taken_out(side, known, candidates.read | reject('in', sizes) | list) -%}
    {%- if taken_out -%}
        {%- do afterimage._copies_report_taken_out(macro_name, side.relation, taken_out) -%}
        {%- set known = known | reject('in', taken_out) | list -%}
        {%- set landed = landed | reject('in', taken_out) | list -%}
        {%- set candidates = afterimage._copies_beside(known, landed, behind=landed) -%}
        {%- set condition = afterimage._copies_condition(side, candidates.read, date_type) -%}
        {%- set sizes = afterimage._copies_sizes(side.rows, side.place, condition, afterimage._quoted(unique_key)) -%}
    {%- endif -%}
    {#- Of a copy that is gone as a whole, rows are removed and none has landed. -#}
    {%- set landed = landed | select('in', sizes) | list -%}
    {#- With new columns, all copies that are there are compared. Behind them, what a gone copy showed stands. -#}
    {%- set plan = afterimage._copies_beside(
        known, landed, behind=landed | reject('in', known) | list if intake.added else landed
    ) -%}
    {%- set gone = plan.read | reject('in', sizes) | list -%}
    {%- do sizes.update(afterimage._copies_sizes(
        afterimage._copies_state(gone, unique_key), 'place', 'true', afterimage._quoted(unique_key, 'image.')
    ) if gone else {}) -%}
    {%- set small = [] -%}
    {%- for place in plan.read -%}
        {%- if place in landed and not loop.first and flags.WHICH in ['run', 'build']
            and sizes[place] * 2 < sizes.get(loop.previtem, 0) -%}
            {#- A copy that was as small when it was read is no news. -#}
            {%- set before = afterimage._copies_sizes(
                afterimage._copies_state([place], unique_key), 'place', 'true', afterimage._quoted(unique_key, 'image.')
            ) if place in known else {} -%}
            {%- if place not in known or sizes[place] < before.get(place, 0) -%}
                {%- do small.append([place, loop.previtem]) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do afterimage._copies_report_small(macro_name, side.relation, small, sizes) -%}

    {%- set ids = ["known.change_id like 'rejected-%'"] -%}
    {%- set revised = (plan.compared + taken_out) | sort -%}
    {%- if revised -%}
        {%- do ids.append(afterimage._copies_ids_between(revised[0], revised[-1])) -%}
    {%- endif -%}
    {{ return(dict(
        plan, gone=gone, has_added=intake.added != [], revised=revised, condition=condition, known_within=ids | join(' or '),
        has_erasures=afterimage._load_relation(afterimage._erasures_table()) is not none
    )) }}
{%- endmacro -%}


{#- The place of the copy that made a row of `known`. The change_id begins with it; that of an erased change does not,
    and its time is the copy's. -#}
{%- macro _copies_place_of_change() -%}
if(
    startswith(known.change_id, 'erased-'),
    date_format(known.changed_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'),
    left(known.change_id, 26)
)
{%- endmacro -%}


{#- The condition that a change_id of `known` may be of one of these copies. -#}
{%- macro _copies_ids_between(first, last) -%}
known.change_id between '{{ first }}' and '{{ last }}~' or known.change_id between 'erased-' and 'erased-~'
{%- endmacro -%}


{#- Of the copies that are known and landed: those that are `compared`, which are the landed ones and the next one
    `behind` each of some, and those that are `read` for it. -#}
{%- macro _copies_beside(known, landed, behind) -%}
    {%- set read = [] -%}
    {%- set compared = [] -%}
    {%- for place in (known + landed) | unique | sort -%}
        {%- if place in landed or loop.previtem in behind -%}
            {%- do read.extend([loop.previtem | default(place), place]) -%}
            {%- do compared.append(place) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({'read': read | unique | list, 'compared': compared}) }}
{%- endmacro -%}


{#- The condition for the landed rows of some copies, and for those without a place. -#}
{%- macro _copies_condition(side, places, date_type) -%}
    {#- A bare date or timestamp lets files be skipped. -#}
    {%- set is_bare = date_type in ['date', 'timestamp'] -%}
    {%- set type = date_type if is_bare else 'string' -%}
    {%- set times = [] -%}
    {%- for place in places -%}
        {%- do times.append("cast('" ~ place ~ "' as " ~ type ~ ')') -%}
    {%- endfor -%}
    {{ return(
        'not (' ~ side.has_place ~ ')'
        ~ (' or ' ~ (side.column if is_bare else side.place) ~ ' in (' ~ times | join(', ') ~ ')' if times else '')
    ) }}
{%- endmacro -%}


{#- The known copies that were taken out of the raw table: those behind the last copy that it still has, if older ones
    that are known are there. What is gone before a copy that is there may be pruned, such as all but the ends of months,
    or all but the last of a day. A table with one copy may be one that each copy replaces, and a sample never has all
    copies. -#}
{%- macro _copies_taken_out(side, known, gone) -%}
    {%- if not known or known | max not in gone or side.relation.event_time_filter -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set present = afterimage._copies_sizes(side.rows, side.place, 'true', ['1']).keys() | list -%}
    {%- set has_older = known | select('in', present) | list | length > 0 and present | length > 1 -%}
    {{ return(known | select('gt', present | max) | list if has_older else []) }}
{%- endmacro -%}


{#- The copies among `places` that have fewer rows than the staging table took in. -#}
{%- macro _copies_thinned(side, places) -%}
    {%- if not places -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set listed = "('" ~ places | join("', '") ~ "')" -%}
    {%- set query -%}
        select known.place
        from (
            select {{ afterimage._copies_place_of_change() }} as place, sum(source_rows) as row_count
            from {{ this }} as known
            where
                {{ afterimage._copies_place_of_change() }} in {{ listed }}
                and ({{ afterimage._copies_ids_between(places | min, places | max) }})
            group by {{ afterimage._copies_place_of_change() }}
        ) as known
        inner join (
            select {{ side.place }} as place, count(*) as row_count
            from {{ side.rows }} as copies
            where {{ side.place }} in {{ listed }}
            group by {{ side.place }}
        ) as landed on known.place = landed.place
        where landed.row_count < known.row_count
    {%- endset -%}
    {{ return(run_query(query).columns[0].values() | list) }}
{%- endmacro -%}


{#- Warns that copies were taken out: if they were only pruned, what they showed is lost. -#}
{%- macro _copies_report_taken_out(macro_name, relation, places) -%}
    {%- if afterimage._ignores_gaps(macro_name) or flags.WHICH not in ['run', 'build'] -%}
        {{ return(none) }}
    {%- endif -%}
    {%- do afterimage._report_gap(
        macro_name ~ ": " ~ relation ~ " no longer has the copies of " ~ places | join(', ') ~ ", and none behind them. What"
        ~ " they showed is superseded. Land the last of them again if it was right, or set the var afterimage_on_gap to"
        ~ " 'ignore'."
    ) -%}
{%- endmacro -%}


{#- A query in brackets for the rows that copies had, from the staging table: of a key that was in one twice its
    rejected rows, of any other what the key's last change by then says. The last 32 characters of that one's change_id
    are the key's hash. An erased key whose intervals are kept has a token, which no copy has. One query serves all
    copies: a statement that names each of many by itself is too large for Spark to plan. -#}
{%- macro _copies_state(places, unique_key) -%}
    {%- set listed = "'" ~ places | join("', '") ~ "'" -%}
    {%- set query -%}
(
    with twice as (
        select
            change_seq as place,
            `after` as image,
            {{ afterimage._key_hash(afterimage._struct(unique_key, '`after`.')) }} as key_hash

        from {{ this }}
        where
            reject_reason like 'twice in one copy:%'
            and change_seq in ({{ listed }})
            and not startswith(change_id, 'erased-')
    )

    select
        place,
        image

    from twice
    union all
    select
        place,
        last_change.image

    from (
        select
            place,
            right(change_id, 32) as key_hash,
            max_by(struct(operation, coalesce(`after`, `before`) as image), change_seq) as last_change

        from {{ this }}
        lateral view explode(array({{ listed }})) as place
        where
            reject_reason is null
            and change_seq <= place
            and change_seq <= '{{ places | max }}'
            and not startswith(change_id, 'erased-')
        group by place, right(change_id, 32)
    ) as keys
    left anti join twice using (place, key_hash)
    where last_change.operation <> 'delete'
)
    {%- endset -%}
    {{ return(query) }}
{%- endmacro -%}
