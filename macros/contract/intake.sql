{#- Decides what a run reads from its raw tables: the rows that have landed since the last run, whatever the source's
    clock says, and the earlier rows that must be read together with them.

    Each of `sides` is a raw relation, and SQL over its rows:
    - `group`: a text shared by rows that must be read together,
    - `where`: which rows are read at all,
    - `time`: when the row changed (for a relation that cannot tell which rows have landed),
    - `opened`: a query in brackets over `<rows>` that adds columns; all other SQL may use them, except `time`.

    Ordered rows let files be skipped:
    - `place`: the beginning of change_seq. `has_place` is true for rows that have one. Places that share their first
      `reach` characters count as near,
    - `bounds`: the condition that a place is between `<first>` and `<last>`, on a bare column; `column` is its name,
    - `known_unplaced`: the condition on `known` that a change has no place,
    - `keeps`: the length of a place, if the relation keeps rows for a while after they are read, so that a gap shows;
      `latest`: the last place that may count as the newest.

    `also` are queries for further groups to read. `extents` are further places ([beginning, first, last]) to read if
    anything has landed. With `whole`, a run that finds landed rows reads everything.

    The result has
    - `kind`: `all` (read everything), `new` or `nothing`,
    - `sides`: as given, each with `rows` (what to select from), `condition` (which of them; none for all) and `landed`
      (if the kind is `new`: a query in brackets for the landed rows),
    - `ranges`: the places of the landed rows; `has_unplaced`: whether some of them have no place,
    - `known_within`: a condition on `known`, the rows of the model's table; it holds for every row the run can meet,
    - `marker`: what the compiled SQL passes to the materialization. -#}
{%- macro _intake(macro_name, sides, also=[], extents=[], whole=false) -%}
    {%- set intake = {
        'kind': 'all', 'sides': [], 'extents': extents + [], 'ranges': [], 'has_unplaced': false, 'known_within': none,
    } -%}
    {%- for side in sides -%}
        {%- set defaults = {
            'group': none, 'where': 'true', 'time': none, 'place': none, 'has_place': 'false', 'reach': none, 'bounds': none,
            'column': none, 'keeps': none, 'latest': none, 'condition': none, 'known_unplaced': "known.change_seq = ''",
            'opened': none,
        } -%}
        {%- set side = dict(defaults, **side) -%}
        {%- do side.update(afterimage._landed_since(side)) -%}
        {%- if side.opened -%}
            {%- do side.update({
                'rows': side.opened | replace('<rows>', side.rows),
                'landed': side.opened | replace('<rows>', side.landed ~ ' as landed') if side.landed else none,
            }) -%}
        {%- endif -%}
        {%- do intake.sides.append(side) -%}
    {%- endfor -%}
    {%- if 'all' not in intake.sides | map(attribute='kind') -%}
        {%- for side in intake.sides if side.kind == 'new' -%}
            {%- do afterimage._landed_summary(intake, side) -%}
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


{#- One query over the landed rows: their number, their places, and whether some have no place. -#}
{%- macro _landed_summary(intake, side) -%}
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
            {%- do intake.update({'has_unplaced': intake.has_unplaced or side.place is not none}) -%}
        {%- else -%}
            {%- do intake.extents.append([row['beginning'], row['first_place'], row['last_place']]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if side['count'] == 0 -%}
        {%- do afterimage._drop_views(side.views) -%}
        {%- do side.update({'kind': 'nothing', 'views': []}) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Selects the rows to read: those of the groups with landed rows, within the ranges of the landed places. -#}
{%- macro _read_groups(intake, also) -%}
    {%- do intake.update({'ranges': afterimage._merge_ranges(intake.extents)}) -%}
    {%- set groups = [] -%}
    {%- for side in intake.sides if side.kind == 'new' and side.group -%}
        {%- do groups.append('select ' ~ side.group ~ ' from ' ~ side.landed ~ ' as landed where ' ~ side.where) -%}
    {%- endfor -%}
    {%- set groups = (groups + also) | join(' union all ') -%}
    {%- for side in intake.sides if side.group -%}
        {%- set conditions = ['(' ~ side.where ~ ')'] -%}
        {%- if side.bounds -%}
            {%- set places = ['not ' ~ side.has_place] if intake.has_unplaced else [] -%}
            {%- for first, last in intake.ranges -%}
                {%- do places.append(side.bounds | replace('<first>', first) | replace('<last>', last)) -%}
            {%- endfor -%}
            {%- do conditions.append('(' ~ (places or ['false']) | join(' or ') ~ ')') -%}
        {%- endif -%}
        {%- do conditions.append(side.group ~ ' in (' ~ groups ~ ')') -%}
        {%- do side.update({'condition': conditions | join(' and ')}) -%}
    {%- endfor -%}
    {%- if intake.ranges or intake.has_unplaced -%}
        {#- A change_seq may continue after its place, with what distinguishes changes that share it. -#}
        {%- set known = [intake.sides[0].known_unplaced] if intake.has_unplaced else [] -%}
        {%- for first, last in intake.ranges -%}
            {%- do known.append("known.change_seq between '" ~ first ~ "' and '" ~ last ~ "~'") -%}
        {%- endfor -%}
        {%- do intake.update({'known_within': known | join(' or ')}) -%}
    {%- endif -%}
{%- endmacro -%}
