{#- What the table remembers, or an error that asks for a full refresh. -#}
{%- macro _checked_bookkeeping(target_relation, stream, options, snapshot) -%}
    {%- set properties = afterimage._table_properties(target_relation) -%}
    {%- set taken_in = afterimage._from_property(properties.get('afterimage.taken_in')) -%}
    {%- set built_with = afterimage._from_property(properties.get('afterimage.options')) -%}
    {%- if taken_in is none or built_with is none -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ": " ~ target_relation ~ " was not built by this materialization. To replace it, run"
            ~ " `dbt run --full-refresh --select " ~ model.name ~ "`."
        ) -%}
    {%- endif -%}
    {%- set now = afterimage._options_text(options) -%}
    {%- if built_with != now -%}
        {#- A misspelt name is no reason for a full refresh. -#}
        {%- set names = afterimage._stream_columns(options.macro_name, stream) | map(attribute='name') | list -%}
        {%- for argument in ['unique_key', 'track_columns', 'ignore_columns', 'overwrite_columns'] -%}
            {%- do afterimage._check_known(options.macro_name, argument, options[argument], names) -%}
        {%- endfor -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ": the options have changed since " ~ target_relation ~ " was built. Restore them, or"
            ~ " run `dbt run --full-refresh --select " ~ model.name ~ "`. Built with: " ~ built_with ~ ". Got: " ~ now
        ) -%}
    {%- endif -%}
    {%- if afterimage._is_rolled_back(target_relation, properties.get('afterimage.snapshot'), snapshot) -%}
        {%- do exceptions.raise_compiler_error(
            options.macro_name ~ ": " ~ target_relation ~ " was rolled back, so changes that it took in are missing."
            ~ " Run `dbt run --full-refresh --select " ~ model.name ~ "`."
        ) -%}
    {%- endif -%}
    {{ return(fromjson(taken_in)) }}
{%- endmacro -%}
