{%- macro _file_formats() -%}
    {{ return(['parquet', 'orc', 'csv', 'json', 'avro', 'text']) }}
{%- endmacro -%}
