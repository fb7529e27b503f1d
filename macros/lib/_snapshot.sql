{#- The current snapshot of a table of the model's format; none for formats other than Iceberg, which rely on their own
    checks. -#}
{%- macro _snapshot(relation) -%}
    {{ return(afterimage._current_snapshot(relation) if config.get('file_format') == 'iceberg' else none) }}
{%- endmacro -%}
