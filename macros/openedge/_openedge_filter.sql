{#- Which rows of the change table or the tracking table are this source table's. -#}
{%- macro _openedge_filter(layout, expressions) -%}
    {%- if not expressions.has_table_number -%}
        {{ return('true') }}
    {%- endif -%}
    {#- A row of the change table cannot be another table's just because it does not say whose it is. -#}
    {%- set number = layout.source_table_number | string -%}
    {{ return(
        ('coalesce(' ~ expressions.table_number ~ ', ' ~ number ~ ')' if expressions is sameas layout.change
        else expressions.table_number) ~ ' = ' ~ number
    ) }}
{%- endmacro -%}
