{#- A change stream -> its history as it was known at a moment. Arguments: macros/history/_history.yml. -#}
{%- macro known_at(changes, moment, unique_key) -%}
    {%- set moment = afterimage._timestamp('known_at', 'moment', moment, may_be_sql=true) -%}
    {%- if afterimage._needs_placeholder([changes]) -%}
        {{ return(afterimage._placeholder_query()) }}
    {%- endif -%}
    {#- In a unit test, only the stored table of the stream can be asked for its columns. -#}
    {%- set columns = afterimage._stream_columns('known_at', changes, needed=['ingested_at']) -%}
    {%- set known = '(select * from ' ~ changes ~ ' where ingested_at <= ' ~ moment ~ ')' -%}
    {{ return(afterimage.scd2(known, unique_key, **dict({'columns': columns}, **kwargs))) }}
{%- endmacro -%}
