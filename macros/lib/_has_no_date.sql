{#- Whether a text is only a time of day, to which Spark would add today's date, or five or six digits (`202401`,
    `093000`), which Spark would read as a year. -#}
{%- macro _has_no_date(text) -%}
    {{ return('not ' ~ text ~ " rlike '^\\\\s*[-+]?([0-9]{4,6}-|[0-9]{4}\\\\s*$)'") }}
{%- endmacro -%}
