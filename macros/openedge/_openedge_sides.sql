{#- The rows of the change table and of the tracking table, for the intake: those of one sequence are read together. -#}
{%- macro _openedge_sides(layout) -%}
    {%- set sides = [] -%}
    {%- for relation, expressions in [
        (layout.relation, layout.change), (layout.tracking_relation, layout.tracking)
    ] if relation is not none and (layout.has_changes or expressions is not sameas layout.change) -%}
        {%- set place = 'lpad(' ~ expressions.sequence ~ ", 19, '0')" -%}
        {%- do sides.append({
            'relation': relation,
            'where': afterimage._openedge_filter(layout, expressions),
            'group': "coalesce(trim(leading '0' from " ~ expressions.sequence ~ "), '')",
            'place': place,
            'has_place': "coalesce(" ~ expressions.sequence ~ " rlike '^[0-9]{1,19}$', false)",
            'reach': 14,
            'bounds': expressions.sequence_column ~ ' between <first> and <last>' if expressions.sequence_column
                else place ~ " between '<first>' and '<last>'",
            'column': expressions.sequence_column,
            'time': expressions.time if expressions.has_time else none,
            'keeps': 19,
        }) -%}
    {%- endfor -%}
    {{ return(sides) }}
{%- endmacro -%}
