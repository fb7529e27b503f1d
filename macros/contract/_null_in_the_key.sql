{#- Why a row without its key is rejected. -#}
{%- macro _null_in_the_key(unique_key) -%}
    {{ return(afterimage._literal('NULL in the key (' ~ unique_key | join(', ') ~ ')')) }}
{%- endmacro -%}
