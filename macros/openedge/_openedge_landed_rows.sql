{#- The CTEs from the landed rows to `changed_rows` and `tracked_rows`: the kind of each row, and which rows belong
    together. -#}
{%- macro _openedge_landed_rows(layout, sides) -%}
{%- set change_side = sides[0] -%}
{%- set tracking_side = sides[-1] -%}
change_rows as (

    select
        {%- for role in ['sequence', 'operation', 'position', 'array_index', 'fragment', 'time', 'transaction_id'] %}
        {{ layout.change[role] }} as {{ role }},
        {%- endfor %}
        {{ afterimage._struct(layout.columns) }} as image

    from {{ change_side.rows if layout.has_changes else layout.relation }}
    where {{ (change_side.condition or change_side.where) if layout.has_changes else 'false' }}

),

tracking_rows as (

    select
        {%- for role in ['sequence', 'operation', 'time', 'transaction_id', 'field_map'] %}
        {{ layout.tracking[role] }} as {{ role }},
        {%- endfor %}
        struct(
            {%- for role in layout.details %}
            {{ layout.tracking[role] }} as {{ role }}{{ ',' if not loop.last }}
            {%- endfor %}
        ) as tracking

    from {{ tracking_side.rows }}
    {%- if layout.tracks %}
    where
        {{ tracking_side.condition or tracking_side.where }}
        and {{ afterimage._openedge_filter(layout, layout.tracking) }}
    {%- else %}
    where false
    {%- endif %}

),

changed_rows as (

    {{ afterimage._openedge_identified(
        'change_rows', ['position', 'array_index', 'fragment'] + layout.image_fields
    ) | indent(4) }}

),

tracked_rows as (

    {{ afterimage._openedge_identified(
        'tracking_rows', ['field_map'] + layout.tracking_fields
    ) | indent(4) }}

)
{%- endmacro -%}
