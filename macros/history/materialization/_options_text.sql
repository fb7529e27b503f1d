{#- The options as one text to compare. The order of names matters only for the key, because history_id is made of
    it. -#}
{%- macro _options_text(options) -%}
    {%- set parts = [] -%}
    {%- for name in [
        'unique_key', 'track_columns', 'ignore_columns', 'overwrite_columns', 'grain', 'deletes', 'load_valid_from'
    ] + (['valid_to_current'] if options.valid_to_current else []) -%}
        {%- set value = options[name] -%}
        {%- set is_list = value is sequence and value is not string -%}
        {%- if is_list -%}
            {%- set names = value | map('lower') | list -%}
            {%- set value = (names if name == 'unique_key' else names | sort) | join(',') -%}
        {%- endif -%}
        {%- do parts.append(name ~ '=' ~ (value or '')) -%}
    {%- endfor -%}
    {#- From the config, because those of an audit are no options of a history. -#}
    {%- for ours, name in (config.get('meta_column_names') or {}) | dictsort -%}
        {%- do parts.append(ours ~ ' as ' ~ name) -%}
    {%- endfor -%}
    {{ return(parts | join('; ')) }}
{%- endmacro -%}
