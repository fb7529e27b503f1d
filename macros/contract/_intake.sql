{#- What a run reads of its raw tables: the rows that have landed since the run before, whatever the source's clock
    says, and the earlier rows that have to be read together with them.

    Each of `sides` is a raw relation and SQL over its rows:
    - `group`: a text that rows share which have to be read together,
    - `where`: which rows are read at all,
    - `time`: when the row was changed (for a relation that cannot say what has landed).
    Where the rows are ordered, so that files can be left out:
    - `place`: the beginning of change_seq. `has_place` tells the rows that have one, `reach` is how many of its
      characters tell near from far,
    - `bounds`: the condition that a place is from `<first>` to `<last>`, said of a bare column; `column` is its name,
    - `known_others`: the condition on `known` that a change has no place,
    - `keeps`: how long a place is, if the relation keeps rows for a while after they were read, so that a gap shows;
      `latest`: the last place that counts as the newest.
    `also` are queries for further groups to read, `extents` further places ([beginning, first, last]) to read if anything
    has landed. With `whole` everything is read then.

    The result has
    - `kind`: `all` (read everything), `new`, or `nothing`,
    - `sides`: as given, and for each `rows` (what to select from), `condition` (which of them; none for all) and
      `landed` (where the kind is `new`, a query in brackets for what has landed),
    - `ranges` of the places of what has landed, and `has_others`: whether rows without a place are among it,
    - `known_within`: a condition on `known`, the rows of the model's table, true of all that the run can meet,
    - `marker`: what the compiled SQL tells the materialization. -#}
{%- macro _intake(macro_name, sides, also=[], extents=[], whole=false) -%}
    {%- set intake = {
        'kind': 'all', 'sides': [], 'extents': extents + [], 'ranges': [], 'has_others': false, 'known_within': none,
    } -%}
    {%- for side in sides -%}
        {%- set defaults = {
            'group': none, 'where': 'true', 'time': none, 'place': none, 'has_place': 'false', 'reach': none, 'bounds': none,
            'column': none, 'keeps': none, 'latest': none, 'condition': none, 'known_others': "known.change_seq = ''",
        } -%}
        {%- set side = dict(defaults, **side) -%}
        {%- do intake.sides.append(dict(side, **afterimage._landed_since(side))) -%}
    {%- endfor -%}
    {%- if 'all' not in intake.sides | map(attribute='kind') -%}
        {%- for side in intake.sides if side.kind == 'new' -%}
            {%- do afterimage._look_at_landed(intake, side) -%}
        {%- endfor -%}
        {%- set has_news = also or intake.sides | selectattr('kind', 'equalto', 'new') | list -%}
        {%- do intake.update({'kind': ('all' if whole else 'new') if has_news else 'nothing'}) -%}
    {%- endif -%}
    {%- if intake.kind != 'nothing' -%}
        {%- for side in intake.sides if side.keeps -%}
            {%- do afterimage._check_retention_gap(
                macro_name, side.relation, side.place, side.has_place ~ ' and (' ~ side.where ~ ')',
                afterimage._newest_place(side.keeps, side.latest)
            ) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if intake.kind == 'new' -%}
        {%- do afterimage._read_groups(intake, also) -%}
    {%- endif -%}
    {%- do intake.update({'marker': afterimage._intake_marker(intake.sides)}) -%}
    {{ return(intake) }}
{%- endmacro -%}


{#- One look at what has landed: how many rows, which places they have, and whether some have none. -#}
{%- macro _look_at_landed(intake, side) -%}
    {%- set query -%}
        select
            if(has_place, left(place, {{ side.reach or 0 }}), null) as beginning,
            count(*) as row_count,
            min(place) as first_place,
            max(place) as last_place

        from (
            select
                {{ side.place or "''" }} as place,
                {{ side.has_place }} as has_place

            from {{ side.landed }} as landed
            where {{ side.where }}
        ) as placed
        group by 1
    {%- endset -%}
    {%- do side.update({'count': 0}) -%}
    {%- for row in run_query(query).rows -%}
        {%- do side.update({'count': side['count'] + row['row_count'] | int}) -%}
        {%- if row['beginning'] is none -%}
            {%- do intake.update({'has_others': intake.has_others or side.place is not none}) -%}
        {%- else -%}
            {%- do intake.extents.append([row['beginning'], row['first_place'], row['last_place']]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if side['count'] == 0 -%}
        {%- do afterimage._drop_views(side.views) -%}
        {%- do side.update({'kind': 'nothing', 'views': []}) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Which rows to read: those of the groups that have landed rows, within the ranges of the landed places. -#}
{%- macro _read_groups(intake, also) -%}
    {%- do intake.update({'ranges': afterimage._as_ranges(intake.extents)}) -%}
    {%- set groups = [] -%}
    {%- for side in intake.sides if side.kind == 'new' and side.group -%}
        {%- do groups.append('select ' ~ side.group ~ ' from ' ~ side.landed ~ ' as landed where ' ~ side.where) -%}
    {%- endfor -%}
    {%- set groups = (groups + also) | join(' union all ') -%}
    {%- for side in intake.sides if side.group -%}
        {%- set conditions = ['(' ~ side.where ~ ')'] -%}
        {%- if side.bounds -%}
            {%- set places = ['not ' ~ side.has_place] if intake.has_others else [] -%}
            {%- for first, last in intake.ranges -%}
                {%- do places.append(side.bounds | replace('<first>', first) | replace('<last>', last)) -%}
            {%- endfor -%}
            {%- do conditions.append('(' ~ (places or ['false']) | join(' or ') ~ ')') -%}
        {%- endif -%}
        {%- do conditions.append(side.group ~ ' in (' ~ groups ~ ')') -%}
        {%- do side.update({'condition': conditions | join(' and ')}) -%}
    {%- endfor -%}
    {%- if intake.ranges or intake.has_others -%}
        {#- Behind the place of a change stands what tells it from others of the same place. -#}
        {%- set known = [intake.sides[0].known_others] if intake.has_others else [] -%}
        {%- for first, last in intake.ranges -%}
            {%- do known.append("known.change_seq between '" ~ first ~ "' and '" ~ last ~ "~'") -%}
        {%- endfor -%}
        {%- do intake.update({'known_within': known | join(' or ')}) -%}
    {%- endif -%}
{%- endmacro -%}
