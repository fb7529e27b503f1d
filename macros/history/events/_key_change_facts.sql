{#- The `facts` for _key_events, for a stream as it is now. None if the SQL may be kept and run later over other
    rows (in a view), or if the stream is a text. -#}
{%- macro _key_change_facts(changes, unique_key) -%}
    {%- set is_run_at_once = model.resource_type == 'test'
        or model.config.materialized in ['table', 'incremental', 'change_stream'] -%}
    {%- if changes is string or not is_run_at_once -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set options = {'unique_key': unique_key, 'load_valid_from': 'current_timestamp()'} -%}
    {{ return(afterimage._remember(none, afterimage._whole_stream(changes, options))) }}
{%- endmacro -%}
