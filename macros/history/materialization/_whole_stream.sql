{#- A summary of all changes of a stream, and whether rows may take each other's keys. -#}
{%- macro _whole_stream(stream, options) -%}
    {%- set found = afterimage._pending_changes(stream, none, options) -%}
    {{ return(dict(found, trades=found.ends > 0 and afterimage._trading_keys(stream, options.unique_key) > 0)) }}
{%- endmacro -%}
