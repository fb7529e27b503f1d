{#- Decides what a run reads from its raw tables: the rows that have landed since the last run, whatever the source's
    clock says, and the earlier rows that must be read together with them.

    `sides` are the raw tables, each as arguments of _side. `new_shape` is what _check_drift returns. `also` are
    queries for further groups to read. With `whole`, a run that finds landed rows reads everything. `further_columns`
    are those that the macro adds to the contract, and `erased_columns` what they have in a change that was erased, as
    SQL: NULL, if they are not there. `declared` are the columns, {name, type}, if the model and no table says their
    types. With `waits_for_time`, a run may find something to do though nothing has landed; `reads` are relations that
    are read without asking what has landed. Ids, places and more are `made_by` some arguments: the first says which
    source table is read, if the raw table may hold several. If one that rows are `read_by` has changed, all is read.

    The result has
    - `kind`: `all` (read everything), `new` or `nothing`,
    - `sides`: as given, each with what _landed lists, and with `condition`: which of its `rows` to select (none for
      all),
    - `extents`: the places of the landed rows; `ranges`: the same, merged to a few,
    - `has_unplaced`: whether some landed rows have no place,
    - `known_within`: a condition on `known`, the rows of the model's table; it holds for every row the run can meet,
    - `is_woken`: whether everything is read because rows of earlier runs waited for what has landed,
    - `has_new_rules`: whether it is because of `read_by`; `had_wakes`: whether earlier runs had sides with `wakes`,
    - `new_shape`, `erased_columns`: as given; `added`: the columns that are new, or were so in a run that did not end,
    - `asks`, `is_asks_known`: see _asks, and whether the table remembers just that; `are_arguments_known`: likewise;
      `types`, `are_types_known`: those that are declared, see _redeclared; `types_name`: the name that they have there,
    - `idle`: the model's query if there is nothing to read; `is_united`: see _unites_tables. -#}
{%- macro _intake(
    macro_name, unique_key, sides, new_shape=none, also=[], whole=false, further_columns=[],
    erased_columns={}, waits_for_time=false, reads=[], declared=none, made_by={}, read_by={}
) -%}
    {%- set remembered = afterimage._remembered_by_rules(sides[0].relation, made_by, read_by, new_shape) -%}
    {%- do afterimage._check_list_comes_first() -%}
    {%- do afterimage._check_key(sides[0].relation, unique_key, made_by, remembered.built_with) -%}
    {%- do afterimage._check_widened_key(macro_name, sides[0].relation, unique_key, new_shape) -%}
    {%- set read = namespace(sides=[], is_woken=false) -%}
    {%- for given in sides -%}
        {%- set side = afterimage._side(**given) -%}
        {%- set landed = afterimage._opened(side, afterimage._landed_since(side, remembered)) -%}
        {%- do read.sides.append(dict(side, condition=none, **landed)) -%}
    {%- endfor -%}
    {%- set can_tell = 'all' not in read.sides | map(attribute='kind') -%}
    {%- if can_tell -%}
        {%- set read.sides = afterimage._summarised(read.sides) -%}
        {%- set read.is_woken = afterimage._has_woken(read.sides, remembered) -%}
    {%- endif -%}
    {%- set news = read.sides | selectattr('kind', 'equalto', 'new') | selectattr('holds_changes') | list -%}
    {#- From top to bottom, the first state that holds. _landed_since has the states of a single table. -#}
    {%- if not can_tell -%}
        {#- The first run, a full refresh, or a table that cannot tell: `… read all rows of t because …` -#}
        {%- set kind = 'all' -%}
    {%- elif read.is_woken -%}
        {#- `… read all rows because earlier rows waited for what has landed` -#}
        {%- set kind = 'all' -%}
    {%- elif not (news or also) -%}
        {#- `… nothing new` -#}
        {%- set kind = 'nothing' -%}
    {%- elif whole -%}
        {%- set kind = 'all' -%}
    {%- else -%}
        {%- set kind = 'new' -%}
    {%- endif -%}

    {%- if kind != 'nothing' -%}
        {%- for side in read.sides if side.keeps -%}
            {%- do afterimage._check_retention_gap(
                macro_name, side.relation, side.place, side.has_place ~ ' and (' ~ side.where ~ ')',
                afterimage._newest_place(side.keeps, side.latest)
            ) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set extents = read.sides | sum(attribute='extents', start=[]) -%}
    {%- set has_unplaced = read.sides | selectattr('has_unplaced') | list | length > 0 -%}
    {%- set asks = afterimage._asks(read.sides, waits_for_time, reads) -%}
    {%- set types = tojson(afterimage._column_types(declared)) if declared else none -%}
    {%- set types_name = afterimage._types_name(sides[0].relation, made_by.table) -%}
    {%- set ranges = afterimage._merge_ranges(extents) if kind == 'new' else [] -%}
    {%- set intake = {
        'macro': macro_name, 'kind': kind,
        'sides': afterimage._grouped(read.sides, ranges, has_unplaced, also) if kind == 'new' else read.sides,
        'extents': extents,
        'ranges': ranges,
        'has_unplaced': has_unplaced,
        'known_within': afterimage._known_within(read.sides[0], ranges, has_unplaced) if kind == 'new' else none,
        'is_woken': read.is_woken, 'are_arguments_known': remembered.are_arguments_known,
        'new_shape': new_shape, 'has_new_rules': remembered.has_new_rules, 'is_united': remembered.is_united,
        'added': (new_shape or fromjson(remembered.read.get('altered') or '{}')).get('added', []),
        'erased_columns': erased_columns,
        'asks': asks,
        'is_asks_known': remembered.read.get(read.sides[0].name ~ ' asks') == asks, 'had_wakes': remembered.had_wakes,
        'types': types, 'types_name': types_name, 'are_types_known': remembered.read.get(types_name) == types,
        'idle': afterimage._no_new_changes(further_columns) if kind == 'nothing' else none,
    } -%}
    {%- do afterimage._note_intake(intake, unique_key, made_by, read_by) -%}
    {{ return(intake) }}
{%- endmacro -%}


{#- A raw table as a dialect describes it, and SQL over its rows:
    - `group`: a text shared by rows that must be read together; `known_group`: that of a row of `known`. With it, rows
      that landed earlier are read only if a run has met one of their group,
    - `where`: which rows are read at all,
    - `time`: when the row changed (for a relation that cannot tell which rows have landed),
    - `opened`: a query in brackets over `<rows>` that adds columns; all other SQL may use them, except `time`.

    Ordered rows let files be skipped:
    - `place`: the beginning of change_seq. `has_place` is true for rows that have one. Places that share their first
      `reach` characters count as near,
    - `bounds`: the condition that a place is between `<first>` and `<last>`, on a bare column; `column` is its name,
    - `known_unplaced`: the condition on `known` that a change has no place,
    - `keeps`: the length of a place, if the relation keeps rows after they are read, so that a gap shows; `latest`: the last
      place that may count as the newest.

    Rows may wait for what lands in another table, such as the schema of a message:
    - `wakes`: a query that returns a row if what has landed here is what rows of earlier runs wait for,
    - `digest`: a query for a text that changes with what the table says, and `depends`: one that returns a row if earlier
      runs have read rows by it,
    - `holds_changes`: false for such a table; its news alone are no reason to read the others,
    - `is_tracked`: false if nobody asks what has landed there; `removals`: whether rows that are gone are news, too;
      `part_place`: the length of a place, by which an erasure finds the rows of a change that lack its key. -#}
{%- macro _side(
    relation, group=none, known_group=none, where='true', time=none, opened=none, place=none, has_place='false',
    reach=none, bounds=none, column=none, known_unplaced="known.change_seq = ''", keeps=none, latest=none, wakes=none, digest=none, depends=none,
    holds_changes=true, is_tracked=true, removals=false, part_place=none
) -%}
    {{ return({
        'relation': relation, 'group': group, 'known_group': known_group, 'where': where, 'time': time, 'opened': opened,
        'place': place, 'has_place': has_place, 'reach': reach, 'bounds': bounds, 'column': column, 'keeps': keeps,
        'known_unplaced': known_unplaced, 'latest': latest, 'wakes': wakes, 'digest': digest, 'depends': depends,
        'holds_changes': holds_changes, 'is_tracked': is_tracked, 'removals': removals, 'part_place': part_place,
    }) }}
{%- endmacro -%}


{#- The landed rows with the columns that the side's `opened` adds. -#}
{%- macro _opened(side, landed) -%}
    {%- if not side.opened -%}
        {{ return(landed) }}
    {%- endif -%}
    {%- set opened = dict(landed, rows=side.opened | replace('<rows>', landed.rows)) -%}
    {%- if landed.landed -%}
        {%- do opened.update({'landed': side.opened | replace('<rows>', landed.landed ~ ' as landed')}) -%}
    {%- endif -%}
    {{ return(opened) }}
{%- endmacro -%}


{#- The sides with what one query over the landed rows of each says, see _landed_summary. -#}
{%- macro _summarised(sides) -%}
    {%- set summarised = [] -%}
    {%- for side in sides -%}
        {%- do summarised.append(dict(side, **afterimage._landed_summary(side)) if side.kind == 'new' else side) -%}
    {%- endfor -%}
    {{ return(summarised) }}
{%- endmacro -%}


{#- Whether rows of earlier runs wait for what has landed, or are read otherwise by it, or by a table that is new. -#}
{%- macro _has_woken(sides, remembered) -%}
    {#- Of several intakes of a raw table the first is remembered. -#}
    {%- set is_first = sides[0].name not in afterimage._noted_intakes() | map(attribute='name') -%}
    {%- set asked = fromjson(remembered.read.get(sides[0].name ~ ' asks') or '{}') if is_first else {} -%}
    {%- set new = sides | selectattr('wakes') | map(attribute='name') | reject('in', asked.get('woken_by', [])) -%}
    {%- if 'woken_by' in asked and new | list -%}
        {{ return(true) }}
    {%- endif -%}
    {%- for side in sides if side.wakes and side.kind in ['new', 'unknown'] -%}
        {%- if run_query(side.wakes).rows | length > 0 -%}
            {{ return(true) }}
        {%- elif side.digest and remembered.read.get(side.name ~ ' digest') != side.digest_now
            and run_query(side.depends).rows | length > 0 -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro -%}


{#- The sides with the condition for the rows to read: those of the groups with landed rows, within the ranges of the
    landed places; or the landed rows alone, if no run has met such a group. The groups of a few rows are named by hashes,
    so that the statement need not find the landed rows once more; a group that shares its hash is read as well. -#}
{%- macro _grouped(sides, ranges, has_unplaced, also) -%}
    {%- set news = sides | selectattr('kind', 'equalto', 'new') | selectattr('group') | list -%}
    {%- set are_few = not also and news | selectattr('group_hashes', 'none') | list == [] -%}
    {%- set named = news | sum(attribute='group_hashes', start=[]) | unique | list if are_few else [] -%}
    {%- set groups = [] -%}
    {%- for side in news -%}
        {%- do groups.append('select ' ~ side.group ~ ' from ' ~ side.landed ~ ' as landed where ' ~ side.where) -%}
    {%- endfor -%}
    {%- set groups = (groups + also) | join(' union all ') -%}
    {%- set grouped = [] -%}
    {%- for side in sides -%}
        {%- set conditions = ['(' ~ side.where ~ ')'] -%}
        {%- if side.bounds -%}
            {%- set places = ['not ' ~ side.has_place] if has_unplaced else [] -%}
            {%- for first, last in ranges -%}
                {%- do places.append(side.bounds | replace('<first>', first) | replace('<last>', last)) -%}
            {%- endfor -%}
            {%- do conditions.append('(' ~ (places or ['false']) | join(' or ') ~ ')') -%}
        {%- endif -%}
        {%- set is_of_groups = 'xxhash64(<group>) in (' ~ named | join(', ') ~ ')' if named
            else '<group> in (' ~ groups ~ ')' -%}
        {%- do conditions.append(is_of_groups | replace('<group>', side.group or '')) -%}
        {%- if side.kind == 'new' and side.known_group and not (also or side.may_be_gone) and not afterimage._is_met(
            is_of_groups | replace('<group>', side.known_group), afterimage._known_within(side, ranges, has_unplaced)
        ) -%}
            {%- do grouped.append(dict(side, rows=side.landed, condition=side.where)) -%}
        {%- else -%}
            {%- do grouped.append(dict(side, condition=conditions | join(' and ') if side.group else none)) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(grouped) }}
{%- endmacro -%}


{#- Whether an earlier run wrote a row of the landed groups. If none did, the landed rows are all of them. -#}
{%- macro _is_met(is_of_groups, known_within) -%}
    {%- set query -%}
        select 1
        from {{ this }} as known
        where
            -- The id of an erased change does not say its group.
            ({{ is_of_groups }} or startswith(known.change_id, 'erased-'))
            {{- ' and (' ~ known_within ~ ')' if known_within }}
        limit 1
    {%- endset -%}
    {{ return(run_query(query).rows | length > 0) }}
{%- endmacro -%}


{#- Merges stretches [beginning, first place, last place] into at most 30 ranges [first place, last place], split at the
    widest gaps between the beginnings, which are hex or decimal numbers. -#}
{%- macro _merge_ranges(extents) -%}
    {%- set extents = extents | sort -%}
    {%- set gaps = [] -%}
    {%- for beginning, _first, _last in extents -%}
        {%- if not loop.first -%}
            {%- do gaps.append([beginning | int(base=16) - loop.previtem[0] | int(base=16), loop.index0]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set starts = (gaps | sort(reverse=true))[:29] | map('last') | list -%}
    {%- set ranges = [] -%}
    {%- for _beginning, first, last in extents -%}
        {%- if loop.first or loop.index0 in starts -%}
            {%- do ranges.append([first, last]) -%}
        {%- else -%}
            {%- set range = ranges.pop() -%}
            {%- do ranges.append([range[0], [range[1], last] | max]) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(ranges) }}
{%- endmacro -%}


{#- The condition on `known` for the places of the rows that a run reads; none if they may have any place. -#}
{%- macro _known_within(side, ranges, has_unplaced) -%}
    {#- A change_seq may continue after its place, with what distinguishes changes that share it. -#}
    {%- set known = [side.known_unplaced] if has_unplaced else [] -%}
    {%- for first, last in ranges -%}
        {%- do known.append("known.change_seq between '" ~ first ~ "' and '" ~ last ~ "~'") -%}
    {%- endfor -%}
    {{ return(known | join(' or ') or none) }}
{%- endmacro -%}
