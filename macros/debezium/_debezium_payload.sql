{#- The payload of a message or of its key, which may have a schema beside it. -#}
{%- macro _debezium_payload(text) -%}
    {%- set is_wrapped = "size(w) = 2 and map_contains_key(w, 'schema') and map_contains_key(w, 'payload')" -%}
    {{ return(afterimage._let(
        'w', afterimage._json_map(text), 'if(' ~ is_wrapped ~ ', ' ~ afterimage._json_map("w['payload']") ~ ', w)'
    )) }}
{%- endmacro -%}
