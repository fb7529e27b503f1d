{#- Qlik change table (`<table>__ct`) -> change contract. Arguments: qlik_change_table.yml. -#}
{%- macro qlik_change_table(
    relation,
    unique_key,
    columns=none,
    header_prefix='header__',
    header_columns=none,
    mask_encoding=none
) -%}
    {%- set layout = afterimage._qlik_layout(
        relation, unique_key, columns, header_prefix, header_columns, mask_encoding
    ) -%}
    {%- if layout is none -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {%- set new_columns = afterimage._check_drift('qlik_change_table', relation, layout.columns) -%}
    {%- set intake = afterimage._intake(
        'qlik_change_table', layout.unique_key, [afterimage._qlik_side(relation, layout)], new_columns
    ) -%}
    {%- if intake.kind == 'nothing' -%}
        {{ return(intake.idle) }}
    {%- endif -%}
    {%- set side = intake.sides[0] -%}
    {%- do afterimage._qlik_check_masks(relation, layout, mask_encoding, side) -%}
    {%- do afterimage._qlik_check_key_trades(relation, layout, side) -%}
    {#- The short way doubles the plan. That pays off for many rows, but not in an incremental run or a unit test. -#}
    {%- set has_short_way = not (afterimage._is_incremental() or relation.identifier.startswith('__dbt__cte__')) %}
with

{{ afterimage._qlik_change_rows(side, layout) }},
{%- if has_short_way %}

{{ afterimage._qlik_plain_changes() }},
{%- endif %}

{{ afterimage._qlik_pairs(layout, has_short_way) }},

flags as (

    {{ afterimage._decoded_masks(
        'select distinct change_mask from source_rows where change_mask is not null', layout.ordinals, layout.columns,
        mask_encoding, layout.header_columns, not layout.mask_is_binary
    ) | indent(4) }}

),

{{ afterimage._qlik_described(layout, has_short_way) }},

{#- Loads have no change_seq. Of different loads of a key the last one wins. It comes first among their identities,
    so that it replaces an earlier one that is no longer landed. -#}
{{ afterimage._finish(
    intake, layout.columns, layout.unique_key,
    lacks=['changed_by'],
    ties={
        'within': ['group_hash', 'change_group'],
        'alone': 'is_alone' if has_short_way,
        'identity_order': "is_orphan asc, if(kind = 'load', last_time, null) desc nulls last, "
            ~ "if(kind = 'load', null, source_time) asc nulls last, if(kind = 'load', null, image_hash) asc, image_hash desc",
        'order': "if(kind = 'load', last_time, null) desc nulls last, if(kind = 'load', image_hash, null) desc, "
            ~ "source_time asc nulls first, image_hash asc",
    },
    old_key='before_image is not null'
) }}
{%- endmacro -%}
