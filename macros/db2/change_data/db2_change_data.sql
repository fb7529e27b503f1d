{#- Db2 change data (CD) or consistent change data (CCD) table -> change contract. Arguments: db2_change_data.yml. -#}
{%- macro db2_change_data(
    relation,
    unique_key,
    columns=none,
    before_prefix='X',
    uow=none,
    condensed=false,
    complete=none,
    pair_key_changes=false,
    time_zone='UTC'
) -%}
    {%- set layout = afterimage._db2_layout('db2_change_data', relation, unique_key, columns, before_prefix) -%}
    {%- do afterimage._check_choice('db2_change_data', 'condensed', condensed, [true, false]) -%}
    {%- do afterimage._check_choice('db2_change_data', 'complete', complete, [none, true, false]) -%}
    {%- do afterimage._check_choice('db2_change_data', 'pair_key_changes', pair_key_changes, [true, false]) -%}
    {%- do afterimage._check_text('db2_change_data', 'time_zone', time_zone) -%}
    {%- if layout is none or afterimage._cannot_read_columns([uow]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set uow = afterimage._db2_uow(uow) if uow is not none else none -%}
    {%- set complete = complete if complete is not none else layout.has_logmarker -%}
    {%- set new_columns = afterimage._check_drift('db2_change_data', relation, layout.columns) -%}
    {#- A condensed table is as small as its source, and one of its rows may replace a row of any age. -#}
    {%- set intake = afterimage._intake(
        'db2_change_data', layout.unique_key, afterimage._db2_sides(layout, relation, uow, condensed, time_zone), new_columns,
        whole=condensed
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {%- set side = intake.sides[0] %}
with

{{ afterimage._db2_rows(layout, side.rows, side.condition, complete, uow, time_zone) }},

{{ afterimage._db2_condensed() if condensed else afterimage._db2_paired(layout, pair_key_changes) }},

{{ afterimage._db2_described(condensed) }},

{{ afterimage._finish(
    intake, layout.columns, layout.unique_key,
    lacks=['changed_columns', 'absent_columns', 'changed_by'],
    ties={} if condensed else {
        'identity_order': "intent_place asc, row_rank asc, if(kind = 'load', last_time, null) desc nulls last, image_hash desc",
        'order': "row_rank asc, if(kind = 'load', last_time, null) desc nulls last, "
            ~ "if(kind = 'load', image_hash, null) desc, image_hash asc",
        'comes_last': "(kind = 'update' and row_kind = 'delete')",
    },
    known={'unchanged_if': afterimage._loses_time() if uow is not none else none}
) }}
{%- endmacro -%}
