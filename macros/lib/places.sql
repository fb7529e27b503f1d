{#- Places in the order of changes, which are texts, and ranges of them that let files be skipped. -#}


{#- Aggregates for `_summary`: between which places the rows are that a run writes, here and in the table. -#}
{%- macro _place_bounds(place, known_place) -%}
    {%- set places = place ~ ', ' ~ known_place -%}
    {{ return({
        'first_place': 'min(least(nullif(' ~ place ~ ", ''), nullif(" ~ known_place ~ ", '')))",
        'last_place': 'max(greatest(' ~ places ~ '))',
        'has_unplaced': "bool_or('' in (" ~ places ~ '))',
    }) }}
{%- endmacro -%}


{#- The condition that a row of the table is at one of the places between `_place_bounds`. It lets a MERGE skip files,
    and it is what another run must not have added meanwhile. -#}
{%- macro _within_places(bounds, place) -%}
    {%- set conditions = [] -%}
    {%- if bounds.first_place is not none -%}
        {%- do conditions.append(
            place ~ ' between ' ~ afterimage._literal(bounds.first_place) ~ ' and ' ~ afterimage._literal(bounds.last_place)
        ) -%}
    {%- endif -%}
    {%- if bounds.has_unplaced -%}
        {%- do conditions.append(place ~ " = ''") -%}
    {%- endif -%}
    {{ return('(' ~ conditions | join(' or ') ~ ')') }}
{%- endmacro -%}


{#- Merges stretches, given as [beginning, first place, last place], into at most 30 ranges [first place, last
    place]. Beginnings are hex or decimal numbers; the ranges split at the widest gaps between them. -#}
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


{#- The place that several changes share, without the suffix that `_finish` orders them by. The suffix may differ
    when the changes arrive again: if a change that gave its row another key is now ordered after a newcomer, it
    leaves its old key at another place. A suffix that belongs to the change itself, such as a counter, is kept. -#}
{%- macro _shared_place(change_seq) -%}
    {{ return('regexp_replace(' ~ change_seq ~ ", '[.](999[.][0-9]{9}|[0-9]{3})$', '')") }}
{%- endmacro -%}


{#- Whether a change was placed after the greatest change_seq known at its time (`<change_seq>.r<number>`). It moves
    when a greater change_seq arrives late. -#}
{%- macro _has_movable_place(change_seq) -%}
    {{ return(change_seq ~ " like '%.r%'") }}
{%- endmacro -%}


{#- The suffix that orders further changes at a place: `.002`, `.003`, … From the 1000th on it is longer, but still
    sorts after the shorter ones and before what a dialect appends to a place (`.c…`). -#}
{%- macro _tie_suffix(turn) -%}
    {%- set is_short = turn ~ ' < 1000' -%}
    {{ return('concat(if(' ~ is_short ~ ", '.', '.999.'), lpad(" ~ turn ~ ', if(' ~ is_short ~ ", 3, 9), '0'))") }}
{%- endmacro -%}
