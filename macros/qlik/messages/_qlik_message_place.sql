{#- The partition of the windows over messages: the place and the key, with good messages separate from others. A
    message that is not a load and has no place is alone. -#}
{%- macro _qlik_message_place(keys) -%}
    {%- set parts = ["coalesce(nullif(place, ''), if(kind = 'load', 'load', message_id))", 'reject_reason is null'] -%}
    {{ return((parts + afterimage._quoted(keys, 'image.')) | join(', ')) }}
{%- endmacro -%}
