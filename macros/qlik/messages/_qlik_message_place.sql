{#- What the windows over messages are divided by: the place and the key, good messages apart from others. What is no
    load and has no place stands alone. -#}
{%- macro _qlik_message_place(keys) -%}
    {%- set parts = ["coalesce(nullif(place, ''), if(kind = 'load', 'load', message_id))", 'reject_reason is null'] -%}
    {%- for key in keys -%}
        {%- do parts.append('image.' ~ afterimage._quote(key)) -%}
    {%- endfor -%}
    {{ return(parts | join(', ')) }}
{%- endmacro -%}
