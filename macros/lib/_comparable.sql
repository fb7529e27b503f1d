{#- An expression that `<=>` can compare: Spark compares everything but maps. -#}
{%- macro _comparable(expression, type) -%}
    {%- if type and type.startswith('map<') and 'map<' not in type[4:] -%}
        {{ return('array_sort(map_entries(' ~ expression ~ '))') }}
    {%- endif -%}
    {{ return(afterimage._exact_json(expression) if type and 'map<' in type else expression) }}
{%- endmacro -%}
