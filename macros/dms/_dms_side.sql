{#- The rows of the table, for the intake. Changes of one place are read together; rows of a full load, and rows
    without a place, with those of the same key. -#}
{%- macro _dms_side(relation, layout) -%}
    {%- set order = layout.order -%}
    {%- set times = ['timestamp', 'timestamp_ntz', 'date'] -%}
    {%- set first = afterimage._quote(layout.order_by[0]) if layout.order_by -%}
    {%- set bounds = order.place ~ " between '<first>' and '<last>'" -%}
    {#- Spark can skip files by a bare column alone. -#}
    {%- if order.is_sequence and layout.order_by | length == 1 -%}
        {%- set cast = "'<first>' and '<last>'" if layout.types[layout.order_by[0]] == 'string'
            else "cast('<first>' as decimal(38,0)) and cast('<last>' as decimal(38,0))" -%}
        {%- set bounds = first ~ ' between ' ~ cast -%}
    {%- endif -%}
    {%- set has_place = '(not ' ~ layout.is_load ~ ' and ' ~ order.place ~ ' is not null)' -%}
    {%- set latest = none -%}
    {%- if order.is_sequence -%}
        {%- set latest = modules.re.sub('[^0-9]', '', afterimage._latest_time()) ~ '~' -%}
    {%- elif layout.order_by and (layout.order_by[0] == layout.time or layout.types[layout.order_by[0]] in times) -%}
        {%- set latest = '%019d' % ((run_started_at.timestamp() + 86400) * 1000000) -%}
    {%- endif -%}
    {{ return({
        'relation': relation,
        'group': 'if(' ~ has_place ~ ', ' ~ order.place ~ ', cast('
            ~ afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) ~ ' as string))',
        'place': order.place,
        'has_place': has_place,
        'reach': 8,
        'bounds': bounds,
        'column': first if order.is_sequence and layout.types[layout.order_by[0]] == 'string' else none,
        'time': 'coalesce(' ~ layout.landed_at ~ ', ' ~ order.time ~ ')',
        'keeps': 1000,
        'latest': latest,
    }) }}
{%- endmacro -%}
