{#- Values as one text that differs whenever they differ: Spark's `to_json` drops the part of a time below a
    millisecond. -#}
{%- macro _exact_json(expression) -%}
    {%- set time = 'yyyy-MM-dd HH:mm:ss.SSSSSS' -%}
    {{ return(
        'to_json(' ~ expression ~ ", map('timestampFormat', '" ~ time ~ "XXX', 'timestampNTZFormat', '" ~ time ~ "'))"
    ) }}
{%- endmacro -%}
