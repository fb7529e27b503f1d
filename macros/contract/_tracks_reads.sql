{#- Whether the model remembers what it has read. It needs a format that a run can add to. -#}
{%- macro _tracks_reads() -%}
    {{ return(
        this is not none and model.config.materialized == 'change_stream'
        and model.config.get('file_format') in ['iceberg', 'delta', 'hudi']
    ) }}
{%- endmacro -%}
