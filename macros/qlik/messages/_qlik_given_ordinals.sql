{#- The positions of the columns, if only the caller's list has them: {map, list} of SQL. -#}
{%- macro _qlik_given_ordinals(names) -%}
    {%- set entries = [] -%}
    {%- for name in names -%}
        {%- do entries.append(afterimage._literal(name) ~ ', ' ~ loop.index) -%}
    {%- endfor -%}
    {{ return({
        'map': 'map(' ~ entries | join(', ') ~ ')',
        'list': 'sequence(1, ' ~ (names | length) ~ ')',
    }) }}
{%- endmacro -%}
