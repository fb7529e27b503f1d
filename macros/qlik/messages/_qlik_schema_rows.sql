{#- SQL that gives the rows of qlik_message_schemas: the relation itself where it is such a model, or made of its
    metadata messages, which stand in the same column as the data messages if there is one of that name. None ahead of
    them, or without metadata. -#}
{%- macro _qlik_schema_rows(metadata, value='value') -%}
    {%- if metadata is none or afterimage._is_ahead_of([metadata]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set names = afterimage._relation_columns(metadata) | map(attribute='name') | map('lower') | list -%}
    {%- if 'schema_id' in names and 'data_schema' in names -%}
        {{ return('select * from ' ~ metadata) }}
    {%- endif -%}
    {{ return(afterimage.qlik_message_schemas(metadata, value if value | lower in names else 'value')) }}
{%- endmacro -%}
