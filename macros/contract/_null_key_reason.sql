{#- The reject reason of a row with NULL in its key. -#}
{%- macro _null_key_reason(unique_key) -%}
    {{ return(afterimage._literal('NULL in the key (' ~ unique_key | join(', ') ~ ')')) }}
{%- endmacro -%}
