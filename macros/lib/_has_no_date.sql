{#- Whether a text is a time of day alone, which Spark would make one of today. -#}
{%- macro _has_no_date(text) -%}
    {{ return('not ' ~ text ~ " rlike '^\\\\s*[-+]?[0-9]{4}'") }}
{%- endmacro -%}
