{#- Bytes or a text as a text that is UTF-8: U+FFFD stands for bytes that are none. A Python UDF would fail on these.
    (A function that reads a text as Java's has the sign already; only where it replaces one does it write the text.) -#}
{%- macro _valid_text(expression) -%}
    {{ return('regexp_replace(cast(' ~ expression ~ " as string), '\\uFFFD', '\\uFFFD')") }}
{%- endmacro -%}
