{#- Aggregates for `_summary`: between which places the rows are that a run writes, here and in the table. -#}
{%- macro _place_bounds(place, known_place) -%}
    {%- set places = place ~ ', ' ~ known_place -%}
    {{ return({
        'first_place': 'min(least(nullif(' ~ place ~ ", ''), nullif(" ~ known_place ~ ", '')))",
        'last_place': 'max(greatest(' ~ places ~ '))',
        'has_unplaced': "bool_or('' in (" ~ places ~ '))',
    }) }}
{%- endmacro -%}
