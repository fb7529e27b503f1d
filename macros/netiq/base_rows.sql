{#- The CTE `base_rows`: the table as it is now. -#}
{%- macro _netiq_base_rows(layout) -%}
-- A key has one row. If it has several, the greatest is taken, so that no change is doubled.
base_rows as (

    select
        images.base_id,
        max(struct(images.image, images.misfits)) as present_row,
        count(*) as rows_of_key

    from (
        select
            typed_rows.*,
            {{ afterimage._netiq_key_text(layout.key_columns, 'image.') }} as base_id

        from (
            select
                named_struct(
                    {%- for column in layout.columns %}
                    {{ afterimage._literal(column.name) }},
                    {{ afterimage._netiq_base_value(layout, column) }}{{ ',' if not loop.last }}
                    {%- endfor %}
                ) as image,
                {{ afterimage._netiq_base_misfits(layout) | indent(16) }} as misfits

            from {{ layout.base }}
        ) as typed_rows
    ) as images
    group by images.base_id

)
{%- endmacro -%}


{#- A column of the base as its declared type. A value that does not fit is NULL, as with logged values. -#}
{%- macro _netiq_base_value(layout, column) -%}
    {%- if not afterimage._netiq_is_other_type(layout, column) -%}
        {{ return('cast(' ~ afterimage._quote(column.name) ~ ' as ' ~ column.type ~ ')') }}
    {%- endif -%}
    {%- set text = afterimage._netiq_base_text(layout, column) -%}
    {%- if column.type in ['tinyint', 'smallint', 'int', 'bigint'] -%}
        {#- A whole number from a decimal column has zeros after the point, or an exponent. -#}
        {%- set text = 'cast(' ~ afterimage._netiq_cast(text, 'decimal(20,0)') ~ ' as string)' -%}
    {%- endif -%}
    {{ return(afterimage._netiq_cast(text, column.type)) }}
{%- endmacro -%}


{#- A column of the base as it would have been logged. -#}
{%- macro _netiq_base_text(layout, column) -%}
    {{ return(afterimage._netiq_as_logged(
        afterimage._quote(column.name), layout.base_types.get(column.name | lower, column.type)
    )) }}
{%- endmacro -%}


{#- The inverse of `_netiq_cast`: a value as a trigger would have logged it. Spark breaks Base64 into lines, so
    these are removed. -#}
{%- macro _netiq_as_logged(expression, type) -%}
    {%- if type == 'binary' -%}
        {{ return("regexp_replace(base64(" ~ expression ~ "), '[\\\\r\\\\n]', '')") }}
    {%- endif -%}
    {{ return(afterimage._as_text(expression, type)) }}
{%- endmacro -%}


{#- Whether a column of the base differs from its declared type. Unknown in a unit test. -#}
{%- macro _netiq_is_other_type(layout, column) -%}
    {%- set type = layout.base_types.get(column.name | lower, column.type) -%}
    {{ return(type | replace(' ', '') != column.type | replace(' ', '')) }}
{%- endmacro -%}


{#- The columns of a base row that do not fit their declared types: structs of the column and the reason. -#}
{%- macro _netiq_base_misfits(layout) -%}
array_compact(cast(array(
    {%- for column in layout.columns if afterimage._netiq_is_other_type(layout, column) %}
    {%- set text = afterimage._netiq_base_text(layout, column) %}
    {%- set reason = 'value does not cast: present value of ' ~ column.name ~ ' is no ' ~ column.type ~ ': "' %}
    if(
        {{ afterimage._quote(column.name) }} is not null and {{ afterimage._netiq_base_value(layout, column) }} is null,
        struct(
            {{ afterimage._literal(column.name) }} as column_name,
            concat({{ afterimage._literal(reason) }}, {{ text }}, '"') as reason
        ),
        null
    ){{ ',' if not loop.last }}
    {%- endfor %}
) as array<struct<column_name: string, reason: string>>))
{%- endmacro -%}
