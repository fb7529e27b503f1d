{#- OpenEdge change table (`CDC_<table>`), with or without its change tracking table -> change contract. Arguments:
    openedge_change_table.yml. -#}
{%- macro openedge_change_table(
    relation,
    unique_key,
    columns=none,
    tracking=none,
    source_table_number=none,
    policy_level=none,
    partition_resets='reject',
    field_map=none,
    field_map_encoding=none,
    field_map_bit_order='high_first',
    split_order='zero_first'
) -%}
    {%- set layout = afterimage._openedge_layout(
        relation, unique_key, columns, tracking, source_table_number, policy_level, partition_resets, field_map,
        field_map_encoding, field_map_bit_order, split_order
    ) -%}
    {%- if layout is none -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- do afterimage._check_openedge_called_once(relation) -%}
    {%- set further_columns = ['tracking'] if layout.tracks else [] -%}
    {%- set new_shape = afterimage._check_drift(
        'openedge_change_table', relation, layout.columns, further_columns,
        raw_table=relation if layout.has_changes else layout.tracking_relation
    ) -%}
    {%- set intake = afterimage._intake(
        'openedge_change_table', layout.unique_key, afterimage._openedge_sides(layout), new_shape,
        further_columns=further_columns, made_by={
            'source_table_number': source_table_number | string | lower,
            'tracking': 'given' if layout.tracking_relation is not none or layout.telling else none,
        },
        read_by={
            'partition_resets': partition_resets, 'split_order': split_order, 'field_map_bit_order': field_map_bit_order,
        }
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {%- do afterimage._allow_many_steps() -%}
with

{{ afterimage._openedge_landed_rows(layout, intake.sides) }},

{{ afterimage._openedge_records(layout, split_order) }},

{{ afterimage._openedge_pairs(layout) }},

{{ afterimage._openedge_joined_tracking(layout) }},

{{ afterimage._openedge_described(layout) }},

{#- The vendor's unique keys allow one change per sequence, but landed tables may hold more. -#}
{{ afterimage._finish(
    intake, layout.columns, layout.types, layout.unique_key,
    ties={
        'within': ['change_group'],
        'identity_order': 'precedence asc, is_orphan asc, row_hash asc',
        'order': 'row_hash asc',
    },
    known=afterimage._openedge_known(layout, split_order, intake.added),
    old_key='before_image is not null',
    source_rows='cast(row_count + if(number_of_identity = 1, tracking_copies, 0) as int)',
    further_columns=further_columns
) }}
{%- endmacro -%}


{#- Raises an error if the model has called the macro before. Each source table counts its own changes, and a
    change_id is that number alone. -#}
{%- macro _check_openedge_called_once(relation) -%}
    {%- for other in afterimage._noted_intakes() if other.macro == 'openedge_change_table' -%}
        {%- do exceptions.raise_compiler_error(
            'openedge_change_table: ' ~ model.name ~ ' calls it twice. Each source table counts its own changes, so a'
            ~ ' change of one would take the place of a change of the other. Write a new model for each table, and'
            ~ ' unite these in the history with a `change_id` that names the table, such as'
            ~ " concat('east-', change_id). If both hold rows of one source table, read a view that unites them. Delete this"
            ~ ' model, but keep ' ~ this ~ ' if rows have left the raw tables, as it has them. Got: '
            ~ other.raw_table ~ ' and ' ~ relation
        ) -%}
    {%- endfor -%}
{%- endmacro -%}


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
            'part_place': 19,
        }) -%}
    {%- endfor -%}
    {{ return(sides) }}
{%- endmacro -%}


{#- The rows of the change table or the tracking table that belong to this source table. -#}
{%- macro _openedge_filter(layout, expressions) -%}
    {%- if not expressions.has_table_number -%}
        {{ return('true') }}
    {%- endif -%}
    {#- A row of the change table that does not name its table counts as this table's. -#}
    {%- set number = layout.source_table_number | string -%}
    {{ return(
        ('coalesce(' ~ expressions.table_number ~ ', ' ~ number ~ ')' if expressions is sameas layout.change
        else expressions.table_number) ~ ' = ' ~ number
    ) }}
{%- endmacro -%}
