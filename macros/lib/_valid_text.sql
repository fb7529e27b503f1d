{#- Bytes or a text as valid UTF-8, with U+FFFD in place of bytes that are not; a Python UDF would fail on those. Spark
    shows U+FFFD when it reads them, but writes it only where a function replaces something. -#}
{%- macro _valid_text(expression) -%}
    {{ return('regexp_replace(cast(' ~ expression ~ " as string), '\\uFFFD', '\\uFFFD')") }}
{%- endmacro -%}
