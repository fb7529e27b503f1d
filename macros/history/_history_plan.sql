{#- What the options mean for a stream with these columns: the tracked, untracked and overwritten ones (in lower
    case), and the names of our own. -#}
{%- macro _history_plan(options, columns) -%}
    {%- for argument in ['unique_key', 'track_columns', 'ignore_columns', 'overwrite_columns'] -%}
        {%- do afterimage._check_known(options.macro_name, argument, options[argument], columns) -%}
    {%- endfor -%}
    {%- set meta = afterimage._meta_columns(options.macro_name, options.meta_column_names, columns) -%}
    {%- set key = options.unique_key | map('lower') | list -%}
    {%- set overwritten = (options.overwrite_columns or []) | map('lower') | list -%}
    {%- set left_out = (options.ignore_columns or []) | map('lower') | list + overwritten -%}
    {%- set chosen = (options.track_columns or columns) | map('lower') | list -%}
    {%- set tracked = [] -%}
    {%- set untracked = [] -%}
    {%- for column in columns if column | lower not in key -%}
        {%- if column | lower in chosen and column | lower not in left_out -%}
            {%- do tracked.append(column) -%}
        {%- else -%}
            {%- do untracked.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({'tracked': tracked, 'untracked': untracked, 'overwritten': overwritten, 'meta': meta}) }}
{%- endmacro -%}
