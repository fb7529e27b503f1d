{#- The positions of the columns, if only the caller's list has them: {map, list} of SQL. -#}
{%- macro _qlik_given_ordinals(names) -%}
    {%- set ordinals = 'sequence(1, ' ~ (names | length) ~ ')' -%}
    {{ return({
        'map': 'map_from_arrays(' ~ afterimage._string_array(names) ~ ', ' ~ ordinals ~ ')',
        'list': ordinals,
    }) }}
{%- endmacro -%}
