{#- SQL for the rows of qlik_message_schemas. It is the relation itself if that is such a model; otherwise it is
    made from its metadata messages, which are in the same column as the data messages if that exists. None if the
    tables do not exist yet, or without metadata. -#}
{%- macro _qlik_schema_rows(metadata, value='value') -%}
    {%- if metadata is none or afterimage._cannot_read_columns([metadata]) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set names = afterimage._relation_columns(metadata) | map(attribute='name') | map('lower') | list -%}
    {%- if 'schema_id' in names and 'data_schema' in names -%}
        {{ return('select * from ' ~ metadata) }}
    {%- endif -%}
    {{ return(afterimage.qlik_message_schemas(metadata, value if value | lower in names else 'value')) }}
{%- endmacro -%}
