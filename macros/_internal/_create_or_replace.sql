{#- How a statement begins that builds a table anew. A table that the format cannot replace goes first. -#}
{%- macro _create_or_replace(existing_relation) -%}
    {%- set can_replace = config.get('file_format') in ['iceberg', 'delta'] -%}
    {%- if existing_relation is not none and not (can_replace and (
        existing_relation.is_iceberg or existing_relation.is_delta
    )) -%}
        {%- do adapter.drop_relation(existing_relation) -%}
    {%- endif -%}
    {{ return('create or replace table' if can_replace else 'create table') }}
{%- endmacro -%}


{#- The properties of a new table; those of the model's config go before them. -#}
{%- macro _tblproperties(properties) -%}
    {%- set assignments = [] -%}
    {%- for name, value in dict(properties, **(config.get('tblproperties') or {})).items() -%}
        {%- do assignments.append(afterimage._literal(name) ~ ' = ' ~ afterimage._literal(value | string)) -%}
    {%- endfor -%}
    {{ return('tblproperties (' ~ assignments | join(', ') ~ ')' if assignments else '') }}
{%- endmacro -%}
