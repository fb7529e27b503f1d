{#- The inverse of `_netiq_cast`: a value as a trigger would have logged it. Spark breaks Base64 into lines, so
    these are removed. -#}
{%- macro _netiq_as_logged(expression, type) -%}
    {%- if type == 'binary' -%}
        {{ return("regexp_replace(base64(" ~ expression ~ "), '[\\\\r\\\\n]', '')") }}
    {%- endif -%}
    {{ return(afterimage._as_text(expression, type)) }}
{%- endmacro -%}
