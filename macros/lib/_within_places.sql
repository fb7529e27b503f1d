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
