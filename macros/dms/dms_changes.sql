{#- A table's files of AWS Database Migration Service (full load and changes) -> change contract. Arguments:
    dms_changes.yml. -#}
{%- macro dms_changes(
    relation,
    unique_key,
    columns=none,
    operation='Op',
    order_by=none,
    time=none,
    before_prefix=none,
    null_is_absent=none
) -%}
    {%- set layout = afterimage._dms_layout(
        relation, unique_key, columns, operation, order_by, time, before_prefix, null_is_absent
    ) -%}
    {%- if layout is none -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set new_columns = afterimage._check_drift('dms_changes', relation, layout.columns) -%}
    {#- Changes of one place are read together. Rows of a full load and rows without a place are read with those of
        their key. -#}
    {%- set has_place = '(not ' ~ layout.is_load ~ ' and ' ~ layout.order.place ~ ' is not null)' -%}
    {%- set side = {
        'relation': relation,
        'place': layout.order.place,
        'bounds': layout.order.bounds,
        'column': layout.order.column,
        'latest': layout.order.latest,
        'group': 'if(' ~ has_place ~ ', ' ~ layout.order.place ~ ', cast('
            ~ afterimage._hash_of_values(afterimage._quoted(layout.unique_key)) ~ ' as string))',
        'has_place': has_place,
        'reach': 8,
        'time': 'coalesce(' ~ layout.source_time ~ ', ' ~ layout.order.time ~ ')',
        'keeps': 1000,
    } -%}
    {%- set intake = afterimage._intake(
        'dms_changes', layout.unique_key, [side], new_columns
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif %}
with

{{ afterimage._dms_rows(intake.sides[0], layout) }},

{#- A load that lands again has another time. It keeps the first, but the latest decides which load of a key is the
    last. -#}
{{ afterimage._distinct_rows(
    'judged_rows', by='change_group, kind, row_id', first='source_time asc nulls last', time='source_time'
) }},

{{ afterimage._dms_described(layout) }},

{#- Of different loads of a key the last one wins. It comes first among their identities, so that it replaces an
    earlier one whose file is gone. -#}
{{ afterimage._finish(
    intake, layout.columns, layout.unique_key,
    lacks=['changed_columns', 'transaction_id', 'changed_by'] + ([] if null_is_absent else ['absent_columns']),
    ties={'identity_order': 'last_time desc nulls last, row_id asc', 'order': 'last_time desc nulls last, row_id asc'},
    old_key='before_image is not null' if layout.image_of else none
) }}
{%- endmacro -%}
