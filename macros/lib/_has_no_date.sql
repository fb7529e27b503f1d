{#- Whether a text is only a time of day, to which Spark would add today's date. -#}
{%- macro _has_no_date(text) -%}
    {{ return('not ' ~ text ~ " rlike '^\\\\s*[-+]?[0-9]{4,6}(-|\\\\s*$)'") }}
{%- endmacro -%}
