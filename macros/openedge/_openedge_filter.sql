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
